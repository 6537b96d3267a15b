"""Events: recorded in the background, and merged with similar ones.

Upstream: client-go tools/record.
"""
