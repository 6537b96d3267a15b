"""A Kubernetes API on one machine, in memory, to run and test controllers on.

- `server`: the API server, a function from request to answer. It names no kind.
- `kinds`: one strategy for each kind, found and not listed.
- `nodes`: a scheduler and kubelets that only pretend.
- `apiserver`: the server with the kinds, the roles and the admission.
- `cluster`, `http_server`, `certificates`, `manifests`, `commands`, `child`, `demo`:
  what the subcommands ``devcluster`` and ``demo`` are made of.

Over HTTP, `http_server` calls the server; in memory, `client.inmemory` does. Only
the command line imports this package, and only when it is asked for. It knows the
API; of controllers it knows what they must be allowed.
"""
