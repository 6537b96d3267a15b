"""State that lasts: the data file of a cluster, and snapshots.

- `data_file`: the SQLite file in which a cluster keeps its state; `schema` is its form.
- `saving`: writes what changes to it, behind the running cluster.
- `snapshot`: the state as a file of text; `transfer` takes and restores it.
- `endpoint`: where a running cluster gives and takes snapshots.
"""
