"""Tests of roles, bindings, and their permissions."""
