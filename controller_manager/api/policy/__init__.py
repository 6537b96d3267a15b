"""The policy group."""
