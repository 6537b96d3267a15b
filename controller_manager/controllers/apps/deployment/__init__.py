"""deployment-controller: rolls pod templates out through replica sets.

``reconciler`` has the handlers and caches, ``view`` what a sync knows, ``decide``
what follows from it, ``actions`` what there is to do, and ``apply`` does it.

Parts of ``decide``, all pure: ``rollout`` and ``templates`` (which replica set is
the new one), ``revisions``, ``creation`` (of the new replica set), ``scaling`` and
``resizing``, ``rolling`` and ``recreate`` (the two strategies), ``rollback``,
``progress``, ``status``, ``report`` and ``reasons`` (what a rollout waits for).
"""
