"""The quota controller."""
