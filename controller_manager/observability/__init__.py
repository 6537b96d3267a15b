"""Logs and metrics of the daemon, with upstream's names."""
