"""The defaults of a claim to devices, and of a template (apis/resource/v1)."""

from collections.abc import Iterator

from controller_manager.api.json_objects import JSON


def default_devices(spec: JSON) -> None:
    """Fill in the allocation mode and the number of devices of each request."""
    for wanted in _wanted(spec.setdefault("devices", {})):
        mode = wanted.setdefault("allocationMode", "ExactCount")
        if mode == "ExactCount":
            wanted.setdefault("count", 1)


def _wanted(devices: JSON) -> Iterator[JSON]:
    """Yield the exact request and all alternatives of each request."""
    for request in devices.get("requests") or ():
        if "exactly" in request:
            yield request["exactly"]
        yield from request.get("firstAvailable", ())
