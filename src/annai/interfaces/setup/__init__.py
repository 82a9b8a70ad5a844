"""How are agents' programs told about annai?"""
