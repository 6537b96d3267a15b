"""The metrics APIs of the development cluster, for autoscalers and ``kubectl top``.

The cluster measures nothing. Annotations of pods or of their workloads set a load, or a
ConfigMap sets all answers of a namespace. The table in docs/devcluster.md shows both.
``answers`` is a pure function from these to the answers, which ``apis`` serves.
"""
