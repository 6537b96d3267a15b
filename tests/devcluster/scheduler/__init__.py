"""Tests of the simulated scheduler."""
