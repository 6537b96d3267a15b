"""Tests of the interface of kinds."""
