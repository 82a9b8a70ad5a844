"""Where an index is kept: one module an engine."""
