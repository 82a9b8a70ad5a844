"""How do files on disk become documents? Which files there are, what changed, and what they say."""
