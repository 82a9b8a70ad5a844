"""How a document is cut into sections: one module a strategy."""
