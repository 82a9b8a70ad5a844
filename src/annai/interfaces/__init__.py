"""How the outside speaks to annai."""
