"""A Kubernetes API on one machine, in memory, to run and test controllers on.

- ``server``: the API server, a function from request to answer. It names no kind.
- ``schema``: the types of the API as data, and their protobuf.
- ``kinds``: one strategy for each kind, found and not listed.
- ``admission``: the admission plugins.
- ``nodes``: a simulated scheduler and simulated kubelets.
- ``metrics``: the metrics APIs.
- ``cel``: the evaluation of expressions; ``regexp``: Go's regular expressions, by RE2.
- ``apiserver``: the server with the kinds, the roles and the admission; ``bootstrap``
  (roles), ``system_namespaces`` and ``kubernetes_service`` have its first objects.
- ``cli``: the subcommands ``devcluster`` and ``demo``, with the parts ``cluster``,
  ``http_server``, ``certificates``, ``keys``, ``manifests``, ``commands``, ``child`` (a
  program beside the cluster) and ``demo``.
- ``data``: the data file of a cluster, and snapshots.
- ``extra``: how to install what only this package needs.
- ``embedded``: the controllers beside a cluster, in the same process.
- ``testing``: a cluster for the tests of other projects, and a pytest plugin.

Over HTTP, ``http_server`` calls the server, with aiohttp; in memory, ``inmemory`` does.
Nothing of this project imports this package: entry points name its subcommands and its
plugin. The package contains the API. It gets the registry of the controllers as an
argument.
"""
