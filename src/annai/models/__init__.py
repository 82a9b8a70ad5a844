"""What do embedders and rerankers need? Known models, weights, devices, memory, extras and services."""
