"""Tests of the types of the API."""
