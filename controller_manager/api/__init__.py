"""The types of the Kubernetes API that the controllers use.

This package has typed, immutable objects, decoded directly from JSON, and pure
functions over them. Nothing here awaits, logs, reads a clock or uses the network.

A part that a controller only copies is kept as bytes (`msgspec.Raw`), so that a write
loses no field that this program does not know.

Each API group is a package of its name; ``dynamicresources`` is resource.k8s.io.
"""
