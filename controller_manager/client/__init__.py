"""The client of an API server: requests, identities, errors, events, leader election.

Nothing here caches objects or decides which objects to write.
"""
