"""The kinds of the group resource.k8s.io: devices, and claims to them.

No driver provides any device, so the rules for what drivers write are few. Upstream:
pkg/apis/resource, pkg/registry/resource.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.storage import Storage

from .kinds import kind_of


def _fill_in_times(taints: Sequence[JSON], now: datetime | str) -> None:
    """Set ``timeAdded`` of each taint without it to the present time."""
    time = now if isinstance(now, str) else format_time(now)
    for taint in taints:
        if not taint.get("timeAdded"):
            taint["timeAdded"] = time


# Classes

DEVICE_CLASSES: Final = kind_of(
    "resource.k8s.io/v1/deviceclasses",
    counts_generations=True,
    printer="Name; Age",
)

# Claims and their templates


def _default_devices(spec: JSON) -> None:
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


def _state(claim: JSON) -> str:
    status, is_deleted = claim["status"], "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if is_deleted else []
    if status.get("allocation"):
        states.append("allocated")
        states += ["reserved"] if status.get("reservedFor") else []
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


def _default_claim(obj: JSON) -> None:
    _default_devices(obj.setdefault("spec", {}))


CLAIMS: Final = kind_of(
    "resource.k8s.io/v1/resourceclaims",
    apply_defaults=_default_claim,
    returns_deleted=True,
    update_rules="spec: immutable",
    status_rules="""
        status:
          reservedFor[]:
            uid: unique pointer at self
          reservedFor: most 256
          reservedFor: forbidden filled if empty allocation
            "may not be specified when `allocated` is not set"
        """,
    status_update_rules="""
        status change:
          allocation: immutable if filled allocation and outer filled allocation
        """,
    printer="Name; State: state; Age",
)


def _default_claim_template(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    _default_devices(spec.setdefault("spec", {}))


CLAIM_TEMPLATES: Final = kind_of(
    "resource.k8s.io/v1/resourceclaimtemplates",
    apply_defaults=_default_claim_template,
    returns_deleted=True,
    rules="""
        spec:
          metadata:
            annotations: annotations
            labels: labels
        """,
    update_rules="spec: immutable",
    printer="Name; Age",
)

# Slices


def _fill_in_devices(obj: JSON, now: datetime | str) -> None:
    for device in obj["spec"].get("devices", ()):
        _fill_in_times(device.get("taints", ()), now)


def _time_new_devices(obj: JSON, _: Storage) -> None:
    _fill_in_devices(obj, obj["metadata"]["creationTimestamp"])


def _time_devices(_: JSON, new: JSON, now: datetime) -> None:
    _fill_in_devices(new, now)


SLICES: Final = kind_of(
    "resource.k8s.io/v1/resourceslices",
    prepare_for_create=_time_new_devices,
    stamp=_time_devices,
    counts_generations=True,
    returns_deleted=True,
    rules="""
        spec:
          driver: driver default empty
          pool always:
            name: required
          devices[]:
            name: label default empty
            name: unique pointer at self
        """,
    update_rules="""
        spec change:
          pool change:
            name: immutable
          driver, nodeName: immutable
        """,
    selectable_fields="spec.driver spec.nodeName",
    printer="""
        Name
        Node: .spec.nodeName
        Driver: .spec.driver
        Pool: .spec.pool.name
        Age
        """,
)

# Taint rules


def _time_new_taint(obj: JSON, _: Storage) -> None:
    _fill_in_times([obj["spec"]["taint"]], obj["metadata"]["creationTimestamp"])


def _time_taint(old: JSON, new: JSON, now: datetime) -> None:
    before, after = (each["spec"]["taint"] for each in (old, new))
    _fill_in_times([after], now)
    unchanged = before.get("timeAdded") == after["timeAdded"]
    if before["effect"] != after["effect"] and unchanged:
        after["timeAdded"] = format_time(now)


TAINT_RULES: Final = kind_of(
    "resource.k8s.io/v1beta2/devicetaintrules",
    prepare_for_create=_time_new_taint,
    stamp=_time_taint,
    counts_generations=True,
    returns_deleted=True,
    rules="""
        spec:
          taint always:
            key: qualified default empty
            effect: enum NoExecute NoSchedule None default empty
        """,
    printer="Name; Age",
    other_versions=("v1alpha3",),
)

# Requests for the state of pools


def _errors(request: JSON) -> int:
    pools = request.get("status", {}).get("pools", ())
    return sum("validationError" in each for each in pools)


POOL_REQUESTS: Final = kind_of(
    "resource.k8s.io/v1alpha3/resourcepoolstatusrequests",
    printer="""
        Name
        Driver: .spec.driver
        Total integer: sum .status.pools[].totalDevices
        Available integer: sum .status.pools[].availableDevices
        Allocated integer: sum .status.pools[].allocatedDevices
        Unavailable integer: sum .status.pools[].unavailableDevices
        Errors integer: errors
        Age
        """,
)
