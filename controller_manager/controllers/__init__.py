"""The controllers; they never import each other.

Each has a package, ``controllers/<area>/<name>/``; an area corresponds to a SIG of
upstream: ``apps``, ``autoscaling``, ``batch``, ``certificates``, ``cluster``,
``identity``, ``network``, ``nodes``, ``resource``, ``scheduling``, ``storage``.

The ``__init__`` of the package exports a `Descriptor` as ``CONTROLLER`` and imports
nothing heavy; flags, metrics and code are in modules beside it. A reconcile reads
caches only. Pure functions, which tests can call, make its decision, a plain value;
only the code that applies this value awaits the network.
"""
