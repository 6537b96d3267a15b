"""Tests of the admission plugins."""
