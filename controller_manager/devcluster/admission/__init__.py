"""The admission plugins of the API server: one file each.

A plugin changes or refuses what is to be written. `plugins` lists all plugins of
upstream, which of them are on by default, and makes those that a server runs.
Upstream: plugin/pkg/admission and k8s.io/apiserver/pkg/admission/plugin.
"""
