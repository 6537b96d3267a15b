"""Tests of names, metadata, patches and bodies."""
