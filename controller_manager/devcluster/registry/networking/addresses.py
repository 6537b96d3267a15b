"""The ranges of service addresses, and the addresses in use.

Upstream: pkg/apis/networking, pkg/controlplane/controller/defaultservicecidr.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.registry.kinds import fixed_uid, kind_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    qualified,
    required,
    shown,
)
from controller_manager.devcluster.validation import values

# Ranges

DEFAULT_CIDR: Final = "kubernetes"
"""The name of the ServiceCIDR that the API server creates."""

_MOST: Final = 2


class RangeError(ValueError):
    """A range of service addresses is not valid; the message says why."""


def _ranges(ranges: list[str], field: str) -> list[Cause]:
    """Check that there is one range, or one of each address family."""
    if not ranges:
        return [required(field, "at least one CIDR required")]
    if len(ranges) > _MOST:
        detail = f"may only hold up to {_MOST} values"
        return [invalid(field, shown({"cidrs": ranges}), detail)]
    versions = [values.range_version(each) for each in ranges]
    causes = [
        invalid(f"{field}[{number}]", shown(text), values.NOT_A_RANGE)
        for number, text in enumerate(ranges)
        if versions[number] is None
    ]
    if not causes and len(set(versions)) < len(versions):
        detail = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 "
            "and 2001:db8::/64"
        )
        causes.append(invalid(field, shown({"cidrs": ranges}), detail))
    return causes


def _more(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that at most a second address family was added."""
    before, after = old.get("cidrs", []), spec.get("cidrs", [])
    if after[: len(before)] != before:
        yield invalid(f"{path}cidrs", shown({"cidrs": after}), values.IMMUTABLE)


SERVICE_CIDRS: Final = kind_of(
    "networking.k8s.io/v1",
    "servicecidrs",
    rules="spec:\n  cidrs: ranges default empty",
    update_rules="spec change:\n  hook more",
    printer="Name; CIDRs: join .spec.cidrs; Age",
)


def add_default_cidr(objects: Objects, ranges: str) -> None:
    """Store the ServiceCIDR `DEFAULT_CIDR`, if there is none; raises RangeError.

    `ranges` is one range, or two with a comma between them.
    """
    cidrs = ranges.split(",")
    if causes := _ranges(cidrs, "cidrs"):
        msg = f"--service-cluster-ip-range {ranges}: {causes[0].detail}"
        raise RangeError(msg)
    stored = objects.storage.collection(SERVICE_CIDRS.resource).get(("", DEFAULT_CIDR))
    if stored is not None:
        _check_same(ranges, stored.obj["spec"]["cidrs"])
        return
    now = format_time(objects.clock.now())
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }
    metadata = {
        "name": DEFAULT_CIDR,
        "uid": fixed_uid(ranges),
        "creationTimestamp": now,
    }
    obj = {
        "metadata": metadata,
        "spec": {"cidrs": cidrs},
        "status": {"conditions": [ready]},
    }
    objects.put(SERVICE_CIDRS, ("", DEFAULT_CIDR), obj)


def _check_same(ranges: str, stored: list[str]) -> None:
    """Check that a stored cluster has these ranges; raises RangeError."""
    if ranges.split(",") != stored:
        known = ",".join(stored)
        msg = (
            f"--service-cluster-ip-range {ranges}: the stored cluster has {known}, and "
            "a cluster keeps its range; name that one, or store this cluster elsewhere"
        )
        raise RangeError(msg)


# Addresses


def _canonical(name: str, field: str) -> Iterator[Cause]:
    if str(values.parse_address(name)) != name:
        yield invalid(field, shown(name), "must be a canonical form IP address")


def _parent(address: JSON) -> str:
    parent = address["spec"].get("parentRef")
    if not parent:
        return "<none>"
    resource = qualified(parent.get("group", ""), parent["resource"]).lower()
    parts = (resource, parent.get("namespace"), parent["name"])
    return "/".join(each for each in parts if each)


IP_ADDRESSES: Final = kind_of(
    "networking.k8s.io/v1",
    "ipaddresses",
    check_name=_canonical,
    rules="""
        spec:
          parentRef: required pointer
          parentRef:
            group: subdomain
            resource: required
            resource: path-segment
            name: required
            name: path-segment
            namespace: path-segment
        """,
    update_rules="spec change:\n  parentRef: immutable",
    printer="Name; ParentRef: parent; Age",
)


def _keep_used_address(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Create the address again if it was deleted while a service has it.

    Upstream's repair loop does the same within some minutes. Otherwise a second
    service could get the address.
    """
    if new is not None or old is None:
        return
    metadata, parent = old["metadata"], old["spec"]["parentRef"]
    key = (parent.get("namespace", ""), parent["name"])
    service = objects.storage.collection(parent["resource"]).get(key)
    spec = service.obj.get("spec", {}) if service else {}
    if metadata["name"] in spec.get("clusterIPs", ()):
        kept = {"name": metadata["name"], "labels": metadata.get("labels", {})}
        objects.create(IP_ADDRESSES, "", {"metadata": kept, "spec": old["spec"]})


REST_STORAGE: Final = RESTStorage(IP_ADDRESSES.resource, after_write=_keep_used_address)
