"""The API server's machinery: routing, reading, writing, watching, discovery.

It names no kind. It is given the kinds: a `Kind` has the facts, its `Strategy` the
behaviour. What upstream's API server does for all resources (k8s.io/apiserver)
works here for all kinds, also for kinds that a CustomResourceDefinition adds
while the server runs.
"""
