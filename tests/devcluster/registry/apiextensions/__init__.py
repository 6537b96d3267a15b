"""Tests of definitions and their schemas."""
