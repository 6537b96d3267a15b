"""Tests of the controller of the same name."""
