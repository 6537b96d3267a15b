"""The HTTPS server of the daemon: /healthz, /metrics and other endpoints.

The server reads the state of the manager through functions that it is given, and
changes nothing. If it runs in a thread of its own, the main loop calls the functions.
"""
