"""A Kubernetes API on one machine, in memory, to run and test controllers on.

- `server`: the API server, a function from request to answer. It names no kind.
- `kinds`: one strategy for each kind, found and not listed.
- `nodes`: a simulated scheduler and simulated kubelets.
- `apiserver`: the server with the kinds, the roles and the admission.
- `cluster`, `http_server`, `certificates`, `manifests`, `commands`, `child`, `demo`:
  the parts of the subcommands ``devcluster`` and ``demo``.
- `embedded`: the controllers beside a cluster, in the same process.
- `testing`: a cluster for the tests of other projects, and a pytest plugin.

Over HTTP, `http_server` calls the server; in memory, `client.inmemory` does. Of this
project only the command line imports this package, and only for these subcommands. It
knows the API; about controllers it knows only their permissions.
"""
