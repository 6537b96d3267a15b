"""The controllers of workloads (SIG Apps): owners of pods, and owners of these.

``replicaset`` and ``replicationcontroller`` keep a number of pods, ``deployment`` rolls
templates out through replica sets, ``statefulset`` keeps pods with an identity,
``daemonset`` keeps a pod on each node, and ``disruption`` limits evictions.
"""
