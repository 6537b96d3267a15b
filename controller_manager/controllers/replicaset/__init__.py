"""replicaset-controller: keeps as many pods as a replica set wants.

``controller`` has the handlers and the sync; ``replicas`` and ``ranking``
decide how many pods to create and which to delete, ``status`` what to report;
these three are pure.
"""
