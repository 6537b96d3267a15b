"""The feature gate of the migrator."""

from typing import Final

from controller_manager.options.gates import Gate

STORAGE_VERSION_MIGRATOR: Final = Gate("StorageVersionMigrator", default=False)
"""API servers serve StorageVersionMigrations."""
