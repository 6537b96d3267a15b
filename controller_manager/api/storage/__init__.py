"""storage.k8s.io: attachments, drivers and classes of volumes, in ``v1``."""
