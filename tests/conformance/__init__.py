"""Recorded scenarios, played against any cluster."""
