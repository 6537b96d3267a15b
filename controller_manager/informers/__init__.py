"""Caches of the API server's objects, kept up to date by watches.

Nothing here writes to the API server or depends on a controller.
"""
