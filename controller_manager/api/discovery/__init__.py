"""The discovery.k8s.io group: ``v1`` has endpoint slices."""
