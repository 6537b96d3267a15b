"""Tests of the controllers of workloads."""
