"""Fields of objects, and their managers."""
