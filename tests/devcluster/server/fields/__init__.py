"""Fields of objects, and who owns them."""
