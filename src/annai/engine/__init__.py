"""How does a project work in this process? The engine opens store, models and indexer, and joins them."""

from annai.engine.engine import Engine, check_root

__all__ = ["Engine", "check_root"]
