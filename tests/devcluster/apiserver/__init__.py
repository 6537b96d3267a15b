"""Tests of the server, which names no kind."""
