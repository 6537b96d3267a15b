"""Tests of state that lasts."""
