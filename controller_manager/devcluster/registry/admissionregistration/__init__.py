"""The kinds of the group admissionregistration.k8s.io.

``webhooks`` has the webhook configurations, ``policies`` the policies and their
bindings, and ``compilation`` the types of their expressions.
"""
