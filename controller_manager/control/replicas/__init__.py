"""Keeping as many pods as wanted: the core of two controllers.

Replica sets and replication controllers differ in their endpoint, in how their
selector is written and in what their status counts; a `Kind` says how. Nothing
here may ask which of the two it serves.
"""
