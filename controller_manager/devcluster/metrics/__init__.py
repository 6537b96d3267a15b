"""The metrics APIs of the development cluster: what autoscalers and kubectl top read.

Nothing is measured. A load is said by annotations of pods or of their workloads
(`loads`), or all answers of a namespace by a ConfigMap (`settings`). The table in
docs/devcluster.md shows both. `answering` is a pure function from these to the
answers of the three metrics APIs; `apis` serves them.
"""
