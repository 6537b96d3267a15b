"""The group external.metrics.k8s.io: ``v1beta1``."""
