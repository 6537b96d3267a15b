"""The kinds of the group admissionregistration.k8s.io.

``webhooks`` has the webhook configurations, and the compilation of expressions;
``policies`` has the policies and their bindings.
"""
