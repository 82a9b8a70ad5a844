"""annai (案内, "guide"): search a folder of documents by meaning and by words, in Japanese and English."""

__version__ = "0.1.0"
