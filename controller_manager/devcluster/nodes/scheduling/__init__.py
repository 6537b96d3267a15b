"""The scheduler of a development cluster.

Upstream: pkg/scheduler with its default plugins. ``node_infos`` counts the requests of
the pods on each node, so that no pod costs a look at all other pods.
"""
