"""The rules by which kube-scheduler decides whether a pod may run on a node."""
