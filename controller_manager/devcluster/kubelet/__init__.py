"""Simulated kubelets, and the start of all parts of a cluster with nodes (``nodes``).

They change objects in the API server of the same process, and run no containers.
"""
