"""deployment-controller: rolls pod templates out through replica sets.

``controller`` has the handlers, the sync and all writes. Everything else is
pure: ``revisions`` (which replica set is whose, names, annotations),
``scaling`` (fenceposts, proportional scaling), ``rolling`` and ``recreate``
(the two strategies), ``rollback``, ``progress`` and ``status``.
"""
