"""How does PostgreSQL hold an index that many machines share?"""
