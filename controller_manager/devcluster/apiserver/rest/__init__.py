"""The interface between the server and a kind (registry/rest)."""
