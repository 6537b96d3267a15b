"""The roles and bindings that each API server creates.

Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy, of version 1.36.
"""
