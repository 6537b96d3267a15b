"""What the daemon serves: /healthz and /metrics.

Here lives the HTTP server and what it answers. It reads the state of others
through the functions it is given, and changes nothing.
"""
