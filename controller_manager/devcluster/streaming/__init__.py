"""Streams between a client and a container: port-forward and exec.

``spdy`` multiplexes streams over a connection, ``port_forward`` and ``remote_command``
are the protocols over these streams or over websockets, ``connections`` takes
connections over from the HTTP server. Upstream: k8s.io/streaming.
"""
