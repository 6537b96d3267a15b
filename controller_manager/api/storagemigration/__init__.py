"""storagemigration.k8s.io: requests to rewrite stored objects, in ``v1beta1``."""
