"""The data file of a cluster, and snapshots of its state.

- ``data_file``: the SQLite file in which a cluster keeps its state; ``schema`` is its
  format, ``data_error`` has its errors.
- ``saving``: writes the changes of a running cluster to the file.
- ``snapshot``: the state as a text file; ``transfer`` takes and restores it.
- ``endpoint``: the path for snapshots of a running cluster.
- ``decoding``, ``collector``: save memory and time when many objects are decoded.
"""
