"""Tests of definitions and of what their schemas do."""
