"""core/v1: the compute resources of containers and pods, as the controllers read them.

Amounts are quantities (`api.quantity`), in the text that the API server prints.
"""

from typing import Final

from controller_manager.api.meta import APIStruct

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
HUGE_PAGES_PREFIX: Final = "hugepages-"
"""The beginning of the names of huge page resources: ``hugepages-2Mi``."""


class ResourceRequirements(APIStruct, frozen=True):
    """The requests and limits of a container, or of a pod as a whole."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None
