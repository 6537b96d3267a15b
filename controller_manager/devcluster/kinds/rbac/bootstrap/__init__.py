"""The roles and bindings that each API server creates.

``components`` has the roles of components, ``absent_controllers`` those of controllers
of cloud providers, ``namespaces`` those in system namespaces, ``nodes`` those of
kubelets, ``users`` those of people; ``policy`` builds roles and bindings. Upstream:
plugin/pkg/auth/authorizer/rbac/bootstrappolicy, of version 1.36.
"""
