"""Users and permissions: ``authentication`` and ``authorization``."""
