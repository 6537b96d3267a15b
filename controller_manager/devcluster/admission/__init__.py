"""The admission plugins of the API server, by what they look at.

A plugin changes or refuses the object of a write; ``plugins`` lists all of upstream's.
Upstream: plugin/pkg/admission and k8s.io/apiserver/pkg/admission/plugin.
"""
