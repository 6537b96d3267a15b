"""Tests of the mirroring controller."""
