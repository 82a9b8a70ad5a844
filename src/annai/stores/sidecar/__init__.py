"""How do engines that find neighbours serve an index file? LanceDB, Chroma, Qdrant."""
