"""Prometheus collectors with upstream's names, labels and buckets.

Each daemon has its own registry and passes it on. There is no global registry, so
that one process may have two daemons.

- ``client``: requests to the API server
- ``collectors``: all metrics of a daemon
- ``elections``: leases
- ``errors``: unexpected errors, and lost log lines
- ``informers``: informers, and the controllers that wait for them
- ``loop``: the main event loop
- ``queues``: work queues
- ``serving``: connections of the HTTPS server
- ``syncs``: syncs
"""
