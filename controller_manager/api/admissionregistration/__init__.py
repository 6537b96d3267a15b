"""The group admissionregistration.k8s.io: ``v1`` has admission policies."""
