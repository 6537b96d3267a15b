"""Requests for certificates, and the authorities of a cluster (SIG Auth)."""
