"""Tests of the rules that check objects."""
