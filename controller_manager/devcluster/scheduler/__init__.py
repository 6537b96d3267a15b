"""The scheduler of the development cluster: binds pods to nodes (kube-scheduler)."""
