"""How does one SQLite file hold an index?"""
