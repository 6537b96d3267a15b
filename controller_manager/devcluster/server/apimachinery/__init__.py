"""Parts of the API that know no kind: names, metadata, patches, refusals.

Upstream: k8s.io/apimachinery.
"""
