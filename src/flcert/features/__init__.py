"""Public features: frozen functions of an input that no client can influence."""
