"""The kind Service.

- ``strategy``: has the ``KIND``.
- ``allocation`` (addresses and node ports), ``ranges`` (free addresses),
  ``node_ports``, ``families``.
- ``fields`` (by type), ``update`` (kept and dropped fields), ``columns``.
- ``validation``, ``address_validation``, ``port_validation``.
"""
