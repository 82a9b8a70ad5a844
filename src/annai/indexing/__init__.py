"""How does a changed file become searchable?"""
