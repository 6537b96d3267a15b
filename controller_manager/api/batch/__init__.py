"""The batch group."""
