"""Requests to an API server: verbs, limits, errors, watches (client-go: rest).

Nothing here knows who sends a request, or by which connection it goes.
"""
