"""The preview (``--preview``): controllers that run and write nothing.

A transport answers each write from an overlay, so that decisions follow as if it had
happened. When the manager in charge makes the same write, it is confirmed and
forgotten. A write that is not confirmed after a grace time is a divergence.

Nothing here knows a controller or the manager.
"""
