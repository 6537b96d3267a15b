"""Validation of objects by rules: one engine, for which each kind has a table."""
