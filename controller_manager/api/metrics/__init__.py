"""The group metrics.k8s.io: ``v1beta1``."""
