"""Clients of other projects, on the development cluster."""
