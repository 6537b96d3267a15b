"""scheduling.k8s.io: groups of pods that are scheduled together."""
