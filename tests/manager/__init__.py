"""Tests of the groups of which the daemon consists."""
