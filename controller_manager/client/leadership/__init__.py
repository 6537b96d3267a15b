"""Which process may write: leader election, and the fence before each write.

Upstream: client-go tools/leaderelection.
"""
