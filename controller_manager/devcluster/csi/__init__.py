"""The CSI driver of the development cluster: provisioner, attacher, resizer, mounts."""
