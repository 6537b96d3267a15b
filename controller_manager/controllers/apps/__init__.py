"""Workloads: what owns pods, and what owns that (SIG Apps)."""
