"""scheduling.k8s.io: groups of pods that are scheduled together, in ``v1alpha2``."""
