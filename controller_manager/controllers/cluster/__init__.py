"""Garbage collection and namespaces: objects of every kind (SIG API Machinery)."""
