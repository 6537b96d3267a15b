"""The types of the API group apps, by version: ``v1``."""
