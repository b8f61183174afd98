"""Certified federated learning of handwritten digits."""
