"""internal.apiserver.k8s.io: what API servers tell each other."""
