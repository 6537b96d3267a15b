"""Logs and metrics: how the daemon tells what it does.

Here live the logging set-up with its verbosity levels, and the Prometheus
collectors with upstream's names. Nothing here decides anything.
"""
