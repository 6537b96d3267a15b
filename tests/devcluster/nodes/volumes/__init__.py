"""Tests of what makes, attaches, mounts and resizes volumes."""
