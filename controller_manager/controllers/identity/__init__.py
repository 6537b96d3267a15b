"""Service accounts, tokens, roles and certificate authorities (SIG Auth).

``bootstrapsigner``, ``clusterroleaggregation``, ``legacytokencleaner``,
``rootcapublisher``, ``serviceaccount``, ``tokencleaner`` (bootstrap tokens) and
``tokens`` (secrets with tokens of service accounts) are its controllers.
"""
