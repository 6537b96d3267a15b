"""The requests for devices in a claim."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from controller_manager.api.core.scheduling import Toleration
from controller_manager.api.json_objects import JSON


class Wanted(Struct, frozen=True):
    """A request for devices, or one of its alternatives."""

    name: str
    device_class: str
    count: int
    """0 for all devices."""

    is_selective: bool
    tolerations: tuple[Toleration, ...]


def alternatives_of(claim: JSON) -> Iterator[list[Wanted]]:
    """Yield the alternatives of each request, the best first."""
    for request in claim["spec"]["devices"].get("requests") or ():
        name = request["name"]
        if "exactly" in request:
            yield [_wanted(name, request["exactly"])]
        else:
            yield [
                _wanted(f"{name}/{each['name']}", each)
                for each in request.get("firstAvailable", ())
            ]


def _wanted(name: str, given: JSON) -> Wanted:
    is_all = given.get("allocationMode") == "All"
    tolerations = given.get("tolerations") or []
    return Wanted(
        name,
        given.get("deviceClassName", ""),
        0 if is_all else given.get("count", 1),
        bool(given.get("selectors")),
        msgspec.convert(tolerations, tuple[Toleration, ...]),
    )
