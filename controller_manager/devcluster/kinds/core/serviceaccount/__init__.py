"""The kind ServiceAccount and its tokens.

``strategy`` has the ``KIND``, ``token_request`` the subresource. ``account_tokens`` are
those of secrets, ``bound_tokens`` those of TokenRequests; ``token_discovery`` publishes
keys and issuer.
"""
