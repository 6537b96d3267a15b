"""Tests of the area of the same name."""
