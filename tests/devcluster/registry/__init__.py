"""Tests of the kinds, and of what works for all of them."""
