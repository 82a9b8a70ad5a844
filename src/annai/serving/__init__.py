"""How do processes reach a project's server, and what travels between them?"""
