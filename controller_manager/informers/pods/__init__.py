"""Pods in caches: their specs are shared, and decoded once."""
