"""Tests of the metrics APIs."""
