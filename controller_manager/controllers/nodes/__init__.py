"""Nodes, and the pods on them (SIG Node)."""
