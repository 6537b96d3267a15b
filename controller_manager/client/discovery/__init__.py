"""The resources that an API server serves, and the kinds that they have.

Upstream: client-go discovery and restmapper.
"""
