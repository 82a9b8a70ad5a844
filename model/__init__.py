"""How is the bundled model made? The workshop, apart from the product: see README.md beside this file."""
