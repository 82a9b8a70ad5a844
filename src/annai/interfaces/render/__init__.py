"""How is what annai knows shown? The same values as text for people, and as JSON."""
