"""How do files on disk become documents? Which there are, what changed, and what they say."""
