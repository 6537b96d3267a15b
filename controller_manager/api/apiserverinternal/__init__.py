"""The group internal.apiserver.k8s.io: ``v1alpha1`` has storage versions."""
