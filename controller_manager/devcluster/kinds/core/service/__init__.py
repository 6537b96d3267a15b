"""The kind Service."""
