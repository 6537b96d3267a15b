"""The HTTPS server of the daemon: /healthz, /metrics and other endpoints.

The server reads the state of the manager through functions that it is given, and
changes nothing.
"""
