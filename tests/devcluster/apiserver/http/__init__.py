"""Tests of requests and answers."""
