"""The group authentication.k8s.io: its kinds, and impersonation.

``reviews`` has the kinds, which are not stored, and ``impersonation`` the user that
headers name.
"""
