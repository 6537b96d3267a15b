"""The controllers, siblings that never import each other.

Each has a directory, ``controllers/<area>/<name>/``; areas are cut as upstream's
owners cut them. Its ``__init__`` exports a `Descriptor` as ``CONTROLLER`` and imports
nothing heavy; flags, metrics and code stand beside it. A reconcile reads caches only;
what it decides is a plain value, made by pure functions that tests can call; only
applying that value awaits the network.
"""
