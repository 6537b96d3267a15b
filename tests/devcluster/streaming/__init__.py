"""Tests of port-forward, exec and the proxies of pods and services."""
