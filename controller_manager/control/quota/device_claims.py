"""The usage of resource claims, which claim devices.

The scheduler makes some of them for the extended resources of a pod: quotas charge the
pod for these resources as well. Upstream:
pkg/quota/v1/evaluator/core/resource_claims.go.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.dynamicresources.v1 import (
    GROUP,
    DeviceCount,
    DeviceRequest,
    ResourceClaim,
)
from controller_manager.api.meta import controller_of
from controller_manager.api.quantity import ZERO, Quantity

from . import resources

_BY_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
_COUNT: Final = resources.count_name("resourceclaims", GROUP)
_ONE: Final = Quantity.of(1)

_MOST_DEVICES: Final = 32
"""The count of a request for all devices: a claim cannot get more devices."""


def tracks(name: str, extended_resources: Mapping[str, str] | None) -> bool:
    """Tell whether claims are charged for a resource.

    `extended_resources` has the extended resource that each device class names, "" if
    it names none. Each class also has an extended resource with the name of the class.
    `None` means that the classes are not known yet: any class may exist then.
    """
    if name == _COUNT or name.endswith(_BY_CLASS):
        return True
    if not resources.limits_extended(name):
        return False
    if extended_resources is None:
        return True
    resource = name.removeprefix(resources.REQUESTS)
    device_class = resource.removeprefix(resources.DEVICE_CLASS_PREFIX)
    if device_class != resource:
        return device_class in extended_resources
    return resource in extended_resources.values()


def resource_claim_usage(
    claim: ResourceClaim,
    extended_resources: Mapping[str, str] = resources.NOTHING,  # type: ignore[assignment]
    charged_to_pod: resources.Amounts = resources.NOTHING,
) -> resources.Amounts:
    """Return the usage of a claim, by device class and by extended resource.

    If the scheduler made the claim for the extended resources of a pod,
    `charged_to_pod` is the usage of that pod; the claim is charged for the excess only.
    """
    usage: dict[str, Quantity] = {_COUNT: _ONE}
    devices = claim.spec.devices
    for request in (devices.requests if devices is not None else None) or ():
        usage = resources.added(usage, _requested(request))
    return usage | _extended(usage, extended_resources, charged_to_pod)


def _requested(request: DeviceRequest) -> resources.Amounts:
    """Return the devices of a request; the largest alternative of each class counts."""
    if not request.first_available:
        wanted = request.exactly
        if wanted is None:
            return resources.NOTHING
        return {wanted.device_class_name + _BY_CLASS: _devices(wanted)}
    most: dict[str, Quantity] = {}
    for each in request.first_available:
        name = each.device_class_name + _BY_CLASS
        if (number := _devices(each)) > most.get(name, ZERO):
            most[name] = number
    return most


def _devices(wanted: DeviceCount) -> Quantity:
    if wanted.allocation_mode == "ExactCount":
        return Quantity.of(wanted.count)
    return Quantity.of(_MOST_DEVICES) if wanted.allocation_mode == "All" else ZERO


def _extended(
    usage: resources.Amounts,
    extended_resources: Mapping[str, str],
    charged_to_pod: resources.Amounts,
) -> dict[str, Quantity]:
    """Return the extended resources that the devices stand for."""
    charged: dict[str, Quantity] = {}
    for name, number in usage.items():
        device_class = name.removesuffix(_BY_CLASS)
        if device_class in ("", name):
            continue
        own = resources.DEVICE_CLASS_PREFIX + device_class
        charged[resources.REQUESTS + own] = number
        if resource := extended_resources.get(device_class):
            charged[resources.REQUESTS + resource] = number
    rest = {
        name: each - charged_to_pod.get(name, ZERO) for name, each in charged.items()
    }
    return {name: each for name, each in rest.items() if each > ZERO}


def pod_of(claim: ResourceClaim) -> tuple[str, str]:
    """Return name and uid of the pod for which a claim was made, "" and "" for none."""
    annotations, owner = claim.metadata.annotations, controller_of(claim)
    is_extended = annotations and annotations.extended_resource_claim == "true"
    if is_extended and owner and (owner.api_version, owner.kind) == ("v1", "Pod"):
        return owner.name, owner.uid
    return "", ""


def stands_for(claim: ResourceClaim, pod: Pod, claims: Iterable[ResourceClaim]) -> bool:
    """Tell whether a claim is the one for whose devices quotas charge its pod already.

    The status of the pod names this claim. Until then it is the oldest of the `claims`
    that were made for the pod, and the first by name of claims of one age.
    """
    stated = pod.status.extended_resource_claim_status
    if stated is not None:
        return stated.resource_claim_name == claim.metadata.name
    return all(_age(claim) <= _age(other) for other in claims)


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "", claim.metadata.name
