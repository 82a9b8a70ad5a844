"""How do texts become vectors? One module for each provider."""
