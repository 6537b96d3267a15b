"""Controllers of nodes, and of the pods on them (SIG Node).

``nodelifecycle`` taints nodes by their health; ``tainteviction`` evicts pods by taints
of nodes, ``devicetainteviction`` by taints of devices; ``podgc`` deletes orphaned pods;
``nodeipam`` gives nodes ranges of addresses; ``ttl`` annotates nodes.
"""
