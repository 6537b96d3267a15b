"""The scheduler of a development cluster.

Upstream: pkg/scheduler with its default plugins. ``node_infos`` counts the requests of
the pods on each node, so that no pod costs a look at all other pods.

- ``scheduler``: binds pods; ``waiting_pods`` has the others, ``failure_handler``
  reports them with the message of ``fit_error``.
- ``fit``, ``predicates``, ``pod_affinity``, ``topology_spread``: reasons why a node
  does not fit; ``affinity_terms`` are the terms of pods.
- ``scores``: chooses among the nodes that fit.
- ``preemption``: makes room for pods of a higher priority.
"""
