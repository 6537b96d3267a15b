"""Create, update and delete of stored objects (registry/generic)."""
