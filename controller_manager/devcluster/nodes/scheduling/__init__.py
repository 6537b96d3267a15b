"""The scheduler of a development cluster.

Upstream: pkg/scheduler with its default plugins. `node_infos` counts what the pods on
each node use, so that no pod costs a look at all others; `fit`, `pod_affinity` and
`topology_spread` say why a node does not fit; `preference` chooses among those that do;
`preemption` makes room for pods of a higher priority.
"""
