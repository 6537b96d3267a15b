"""The kind Job."""
