"""Talking to an API server.

This package has the transport protocol with its HTTP and in-memory implementations,
typed verbs over it, errors by reason, the client-side rate limit, credentials,
discovery, the event recorder, leader election (also one that the API server decides)
and the fence, which checks before each write that this process owns the key. Nothing
here caches objects or decides what to write.
"""
