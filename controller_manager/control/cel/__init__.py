"""A part of CEL, the expression language of admission policies."""
