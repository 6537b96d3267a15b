"""Tests of the verbs of HTTP."""
