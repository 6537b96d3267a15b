"""The objects of the Kubernetes API, as the controllers see them.

Here live typed, immutable values decoded straight from the wire, and pure
functions over them: label selectors, owner references, int-or-percent,
conditions, times. Nothing here awaits, logs, reads a clock or knows that a
network exists.

What a controller only carries is kept as bytes (`msgspec.Raw`), so that no
field unknown to us is lost when it is written back.
"""
