"""Who keeps an index fresh and whole while a process lives?"""
