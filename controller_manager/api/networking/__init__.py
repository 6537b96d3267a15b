"""The group networking.k8s.io: ``v1`` has the ranges and addresses of services."""
