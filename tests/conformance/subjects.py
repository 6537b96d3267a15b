"""What a family of recordings is about, if all controllers ran when it was made."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Subject(NamedTuple):
    """The controllers that recordings are about, and the resources that they write.

    While one of the controllers is absent the recordings are not played. `resources`
    are those whose writes are compared, with their subresources.
    """

    controllers: tuple[str, ...]
    resources: tuple[str, ...]


_ENDPOINTS: Final = Subject(
    (
        "endpoints-controller",
        "endpointslice-controller",
        "endpointslice-mirroring-controller",
    ),
    ("endpoints", "endpointslices"),
)
_AUTOSCALERS: Final = Subject(
    ("horizontal-pod-autoscaler-controller",),
    ("horizontalpodautoscalers",),
)

SUBJECTS: Final[Mapping[str, Subject]] = {
    "endpoints": _ENDPOINTS,
    "manyendpoints": _ENDPOINTS,
    "hpa": _AUTOSCALERS,
    "hpazero": _AUTOSCALERS,
    "quota": Subject(("resourcequota-controller",), ("resourcequotas",)),
    "identity": Subject(("clusterrole-aggregation-controller",), ("clusterroles",)),
}
"""The subjects by family.

A family that is not named here is about the controllers that its ARGS name, or about
all of them.
"""
