"""Tests of roles, bindings, and what they allow."""
