"""How is annai added to an agent's program?"""
