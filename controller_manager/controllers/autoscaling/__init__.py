"""Autoscalers (SIG Autoscaling)."""
