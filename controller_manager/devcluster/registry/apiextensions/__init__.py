"""Custom resource definitions, and the kinds that they add to the API."""
