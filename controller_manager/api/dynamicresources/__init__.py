"""resource.k8s.io: devices that pods claim."""
