"""The page that the project's server shows in a browser: search, read, watch the index, evaluate."""
