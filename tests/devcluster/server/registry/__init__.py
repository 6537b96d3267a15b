"""Tests of stored objects."""
