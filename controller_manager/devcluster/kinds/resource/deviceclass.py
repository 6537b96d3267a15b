"""DeviceClass: devices that claims may ask for; no driver provides any."""

from typing import Any, ClassVar, Final

from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy

JSON = dict[str, Any]


class DeviceClassStrategy(Strategy):
    """Stores a class as given."""

    counts_generations: ClassVar = True

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in an empty spec."""
        obj.setdefault("spec", {})


KIND: Final = Kind(
    "resource.k8s.io",
    "v1",
    "DeviceClass",
    "deviceclasses",
    model="V1DeviceClass",
    namespaced=False,
    strategy=DeviceClassStrategy(),
)
