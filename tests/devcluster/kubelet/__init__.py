"""Tests of the simulated kubelets."""
