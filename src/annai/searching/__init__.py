"""How does a question become an answer?"""
