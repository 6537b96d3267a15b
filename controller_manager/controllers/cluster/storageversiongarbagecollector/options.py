"""The feature gates of storage versions."""

from typing import Final

from controller_manager.options.gates import Gate

STORAGE_VERSION_API: Final = Gate("StorageVersionAPI", "ALPHA", default=False)
"""API servers publish the versions in which they store objects."""

API_SERVER_IDENTITY: Final = Gate("APIServerIdentity")
"""Each API server holds a lease under its name."""
