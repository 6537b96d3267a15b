"""replicaset-controller: keeps as many pods as a replica set wants.

All of it is ``control.replicas``, told here that its owners are replica sets.
"""
