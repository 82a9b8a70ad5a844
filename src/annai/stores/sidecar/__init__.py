"""How do engines that only find neighbours serve beside an index file? LanceDB, Chroma, Qdrant."""
