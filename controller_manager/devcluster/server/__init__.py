"""The API server's machinery: routing, reading, writing, watching, discovery.

It names no kind. What it serves, and what is special about each kind, it is
given: a `Kind` states the facts, its `Strategy` the behaviour. What upstream's
API server does for all resources (k8s.io/apiserver) works here for all kinds,
also for those that a definition brings while the server runs.
"""
