"""What concerns objects of every kind: garbage, namespaces (SIG API Machinery)."""
