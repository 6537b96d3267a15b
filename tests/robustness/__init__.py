"""The daemon as a process, beside a cluster that is slow, refuses or cuts connections.

The daemon runs as users run it: `python -m controller_manager`, on uvloop, under
leader election with its default times, over HTTPS. The development cluster's API
server runs in the test's process, where it can be made slow or can refuse.
"""
