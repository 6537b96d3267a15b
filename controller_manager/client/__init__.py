"""Talking to an API server.

Here live the transport protocol with its HTTP and in-memory implementations,
typed verbs over it, errors by reason, the client-side rate limit, credentials,
discovery and the event recorder. Nothing here caches objects or decides what
to write.
"""
