"""The usage of each object."""
