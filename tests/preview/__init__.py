"""Tests of the preview."""
