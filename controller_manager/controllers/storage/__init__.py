"""Volumes, and the claims to them (SIG Storage)."""
