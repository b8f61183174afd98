"""Figures and an HTML page of a run, both readable with no network."""
