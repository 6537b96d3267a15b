"""Recorded scenarios, replayed on any cluster."""
