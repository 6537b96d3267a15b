"""Caches of the API server's objects, kept fresh by watches.

Here live the reflector (list and watch as a state machine), the indexed store, the
listers that read it, the shared informer (one watch, many handlers), what makes
cached objects small (``reads``, ``trimming``, ``transforms``), and the factory that
starts each resource once. Nothing here writes to the API server or knows what a
controller wants with an object.
"""
