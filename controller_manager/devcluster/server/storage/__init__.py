"""Objects with versions and history, instead of etcd and the watch cache.

``storage`` has the collections, ``state`` the whole state of a storage for snapshots.
"""
