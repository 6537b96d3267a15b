"""A part of CEL, the expression language of admission policies.

The controller of policies checks expressions with it, and the development cluster
evaluates them (`devcluster.cel`).
"""
