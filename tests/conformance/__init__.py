"""The official suite of the protocol."""
