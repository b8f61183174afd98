"""Predictions with their certificates over HTTP, and the page that explains them (extra: ``flcert[serve]``)."""
