"""The interface between the server and a kind (registry/rest).

- ``kind``: the facts that paths and discovery show, the conversion of versions, and
  the catalogue of all kinds.
- ``strategy``: the behaviour of the objects of a kind.
- ``admission``: the interface of plugins that change and check writes.
- ``tables`` (columns for kubectl), ``selection`` (selectors), ``deletion`` (options of
  a DELETE).
"""
