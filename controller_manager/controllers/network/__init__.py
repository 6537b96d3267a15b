"""Controllers of services and of their endpoints."""
