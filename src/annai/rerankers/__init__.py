"""How results are ordered anew: one module a provider."""
