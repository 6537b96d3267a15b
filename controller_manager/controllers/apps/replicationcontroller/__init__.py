"""replicationcontroller-controller: as many pods as a replication controller wants.

All of it is ``control.replicas``, told here that its owners are replication
controllers.
"""
