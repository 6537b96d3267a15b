"""The admission plugins."""
