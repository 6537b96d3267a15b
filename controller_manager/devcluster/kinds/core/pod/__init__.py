"""The kind Pod.

``strategy`` has the ``KIND``; ``binding`` and ``eviction`` are subresources.
``columns`` has the row of a table, ``qos`` the class, ``topology`` the labels from the
node, ``update_validation`` the changes that an update may make.
"""
