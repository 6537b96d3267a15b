"""Tests of the nodes."""
