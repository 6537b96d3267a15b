"""Caches of the API server's objects, kept up to date by watches.

This package has the reflector (list and watch as a state machine), the indexed store,
the listers that read it, the shared informer (one watch, many handlers), the modules
that make cached objects small (``reads``, ``trimming``, ``transforms``), and the
factory that starts one informer for each resource. Nothing here writes to the API
server or depends on a controller.
"""
