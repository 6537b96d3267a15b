"""Tests of the endpoints controller."""
