"""Memory and CPU of the manager by the size of the cluster: docs/sizing.md.

- `copies`: fills a cluster with copies of a settled workload.
- `cluster`: one run: a cluster of a size, and a manager that starts, rests and works.
- `figures`: the file of all runs; medians, and a model for sizes beyond.
- `page`: the table of the page.
- `plot`: the drawing of the page.
- `__main__`: the command.
"""
