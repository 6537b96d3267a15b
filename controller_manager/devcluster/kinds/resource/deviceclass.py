"""DeviceClass: devices that claims may ask for; no driver provides any."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge


class DeviceClassStrategy(NameAndAge):
    """Stores a class as given."""

    counts_generations: ClassVar = True


KIND: Final = kind_of("resource.k8s.io/v1", "deviceclasses", DeviceClassStrategy())
