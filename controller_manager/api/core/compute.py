"""core/v1: the names of the compute resources of containers and pods."""

from typing import Final

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
HUGE_PAGES_PREFIX: Final = "hugepages-"
"""The beginning of the names of huge page resources: ``hugepages-2Mi``."""
