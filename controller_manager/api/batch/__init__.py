"""The batch group: ``v1``."""
