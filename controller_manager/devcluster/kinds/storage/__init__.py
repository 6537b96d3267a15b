"""The kinds of the group storage.k8s.io, one file each.

Kinds: ``csidriver``, ``csinode``, ``csistoragecapacity``, ``storageclass``,
``volumeattachment``, ``volumeattributesclass``. Shared: ``default_class`` (the class of
claims without one), ``validation`` (of classes).
"""
