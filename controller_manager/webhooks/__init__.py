"""Serves the webhooks that controllers declare, and tells the API server of them."""
