"""Logs and metrics of the daemon.

This package has the logger with its verbosity levels, and the Prometheus collectors
with upstream's names.
"""
