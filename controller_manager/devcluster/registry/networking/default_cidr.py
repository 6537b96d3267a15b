"""The ServiceCIDR that the API server creates when it starts.

Upstream: pkg/controlplane/controller/defaultservicecidr.
"""

from typing import Final

from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.registry.core.service_addresses import DEFAULT_CIDR
from controller_manager.devcluster.registry.fixed_uids import fixed_uid

from .servicecidr import KIND as SERVICE_CIDR
from .servicecidr import validate_ranges

_MESSAGE: Final = "Kubernetes default Service CIDR is ready"


class RangeError(ValueError):
    """A range of service addresses is not valid; the message says why."""


def add_default_cidr(objects: Objects, ranges: str) -> None:
    """Store the ServiceCIDR ``kubernetes``, if there is none; raises RangeError.

    `ranges` is one range, or two with a comma between them.
    """
    cidrs = ranges.split(",")
    if causes := validate_ranges(cidrs, "cidrs"):
        msg = f"--service-cluster-ip-range {ranges}: {causes[0].detail}"
        raise RangeError(msg)
    stored = objects.storage.collection(SERVICE_CIDR.resource).get(("", DEFAULT_CIDR))
    if stored is not None:
        _check_same(ranges, stored.obj["spec"]["cidrs"])
        return
    now = format_time(objects.clock.now())
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "",
        "message": _MESSAGE,
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
    objects.put(SERVICE_CIDR, ("", DEFAULT_CIDR), obj)


def _check_same(ranges: str, stored: list[str]) -> None:
    """Check that a stored cluster has these ranges; raises RangeError."""
    if ranges.split(",") != stored:
        known = ",".join(stored)
        msg = (
            f"--service-cluster-ip-range {ranges}: the stored cluster has {known}, and "
            "a cluster keeps its range; name that one, or store this cluster elsewhere"
        )
        raise RangeError(msg)
