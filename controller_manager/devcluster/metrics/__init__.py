"""The metrics APIs of the development cluster, for autoscalers and ``kubectl top``.

The cluster measures nothing. Annotations of pods or of their workloads set a load
(``loads``), or a ConfigMap sets all answers of a namespace (``settings``). The table in
docs/devcluster.md shows both. ``answers`` is a pure function from these to the answers
of the three metrics APIs; ``apis`` serves them. ``node_metrics`` has the metrics of
nodes, ``metrics_columns`` the columns of tables, ``quantities`` sums and shares.
"""
