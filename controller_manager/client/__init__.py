"""Talking to an API server.

Here live the transport protocol with its HTTP and in-memory implementations,
typed verbs over it, errors by reason, the client-side rate limit, credentials,
discovery, the event recorder, leader election and the fence, which asks for each
write whether this process owns its key. Nothing here caches objects or decides what
to write.
"""
