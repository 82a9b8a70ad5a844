"""How texts become vectors: one module a provider."""
