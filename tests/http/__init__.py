"""Tests over real HTTPS connections."""
