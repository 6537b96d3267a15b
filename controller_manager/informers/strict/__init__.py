"""The strict mode: an undeclared field of a cached object cannot be read."""
