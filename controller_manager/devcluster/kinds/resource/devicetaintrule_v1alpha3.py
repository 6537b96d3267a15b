"""DeviceTaintRule in version v1alpha3, which has the same fields as v1beta2."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.resource.devicetaintrule import (
    KIND as STORED,
)
from controller_manager.devcluster.server.rest.kind import Conversion


def _same_fields(obj: JSON) -> JSON:
    """Return the fields of an object; both versions have the same."""
    aside = ("kind", "apiVersion")
    return {name: value for name, value in obj.items() if name not in aside}


KIND: Final = kind_of(
    "resource.k8s.io/v1alpha3",
    "devicetaintrules",
    STORED.strategy,
    conversion=Conversion(STORED, to_stored=_same_fields, from_stored=_same_fields),
)
