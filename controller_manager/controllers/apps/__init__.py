"""Workloads: the owners of pods, and the owners of these (SIG Apps)."""
