"""Prometheus collectors with upstream's names, labels and buckets.

Each daemon has its own registry and passes it on. There is no global registry, so
that one process may have two daemons.
"""
