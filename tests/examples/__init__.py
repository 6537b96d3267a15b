"""Tests of the numbered examples."""
