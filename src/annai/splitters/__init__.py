"""How is a document cut into sections? One module for each strategy."""
