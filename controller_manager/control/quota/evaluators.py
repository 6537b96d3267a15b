"""Evaluators: the usage of the objects of one resource (apiserver pkg/quota/v1).

Upstream: services.go and persistent_volume_claims.go of pkg/quota/v1/evaluator/core.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.core.claims import (
    CLAIMS,
    PersistentVolumeClaim,
    attributes_classes_of,
    requested_storage,
    storage_class_of,
)
from controller_manager.api.core.resources import ResourceRequirements
from controller_manager.api.core.services import SERVICES, Service
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, ResourceClaim
from controller_manager.api.quantity import Quantity, parse_quantity

from . import device_claims, pods, scopes
from .pods import is_resize_infeasible, resized_statuses
from .resources import Amounts, names_of_count

_ONE: Final = Quantity.of(1)

NODE_PORTS: Final = "services.nodeports"
LOAD_BALANCERS: Final = "services.loadbalancers"
_TRACKED_OF_SERVICE: Final = frozenset(
    (*("count/services", "services"), NODE_PORTS, LOAD_BALANCERS)
)


def service_usage(service: Service) -> Amounts:
    """Return the usage of a service.

    The node ports of a new service are not allocated yet, so all its ports count. For a
    load balancer without allocated node ports, only ports with a node port count.
    """
    spec = service.spec
    ports = spec.ports or ()
    is_balancer = spec.type == "LoadBalancer"
    if is_balancer and spec.allocate_load_balancer_node_ports is False:
        node_ports = sum(1 for each in ports if each.node_port)
    else:
        node_ports = len(ports) if is_balancer or spec.type == "NodePort" else 0
    return {
        "count/services": _ONE,
        "services": _ONE,
        NODE_PORTS: Quantity.of(node_ports),
        LOAD_BALANCERS: Quantity.of(int(is_balancer)),
    }


_VOLUME_CLAIMS: Final = "persistentvolumeclaims"
_STORAGE: Final = "requests.storage"
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"

_CLAIM_COUNT: Final = "count/persistentvolumeclaims"
_TRACKED_OF_CLAIM: Final = frozenset((_CLAIM_COUNT, _VOLUME_CLAIMS, _STORAGE))
_SUFFIXES: Final = (_BY_CLASS + _VOLUME_CLAIMS, _BY_CLASS + _STORAGE)


def tracks_claim(name: str) -> bool:
    """Tell whether claims are charged for a resource."""
    return name in _TRACKED_OF_CLAIM or name.endswith(_SUFFIXES)


def claim_usage(claim: PersistentVolumeClaim) -> Amounts:
    """Return the usage of a claim, also by its storage class.

    Raises QuantityError for an invalid quantity.
    """
    usage = {_CLAIM_COUNT: _ONE, _VOLUME_CLAIMS: _ONE}
    size = _size(claim)
    if size is not None:
        usage[_STORAGE] = size
    if storage_class := storage_class_of(claim):
        by_class = storage_class + _BY_CLASS
        usage[by_class + _VOLUME_CLAIMS] = _ONE
        if size is not None:
            usage[by_class + _STORAGE] = size
    return usage


def _size(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the bytes that count: the larger of the requested and the allocated bytes.

    A claim that a user makes smaller after a failed expansion keeps its allocation.
    """
    wanted = requested_storage(claim)
    if wanted is None:
        return None
    size = _whole_bytes(parse_quantity(wanted))
    allocated = (claim.status.allocated_resources or {}).get("storage")
    if allocated is not None:
        size = max(size, _whole_bytes(parse_quantity(allocated)))
    return size


def _whole_bytes(amount: Quantity) -> Quantity:
    whole = Quantity.of(amount.value, amount.format)
    return amount if whole == amount else whole


def _always(_old: object, _new: object) -> bool:
    return True


class Evaluator(Struct, frozen=True):
    """The rules by which quotas charge for the objects of one resource.

    - `tracks` tells whether objects have usage of a resource that a quota limits.
    - `usage` returns the usage of an object at a time.
    - `meets` tells whether an object meets a requirement of a quota's scopes.
    - `footprint` returns all data on which `usage` and `meets` depend; if two versions
      of an object have equal footprints, no quota needs a recount.
    - `missing` returns the limited resources that an object fails to specify, in the
      words of the API server, or "".
    - `charges_update` tells whether the API server charges for the change from an old
      to a new object.
    - `charged_subresources` are the subresources whose updates the API server charges
      for.
    - `shape` returns a key; objects with equal keys other than `None` have equal usage,
      as long as all of them are in memory.
    """

    group: str
    plural: str
    tracks: Callable[[str], bool]
    usage: Callable[[Any, datetime], Amounts]
    footprint: Callable[[Any, datetime], Any]
    meets: Callable[[scopes.Requirement, Any], bool] = lambda _, __: False
    missing: Callable[[Any, Iterable[str]], str] = lambda _, __: ""
    charges_update: Callable[[Any, Any], bool] = lambda _, __: False
    charged_subresources: tuple[str, ...] = ()
    shape: Callable[[Any, datetime], Hashable | None] = lambda _, __: None

    @property
    def group_resource(self) -> str:
        """``jobs.batch``, or ``pods`` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _shape_of_pod(pod: Pod, now: datetime) -> Hashable | None:
    """Return the containers of a pod, by their place in memory, and its amounts.

    A cache shares the containers of the pods of one owner. The key has the amounts of
    the pod as a whole, and those that a kubelet reports, as texts: a kubelet reports
    the allocated amounts of every container that has requests.
    """
    spec = pod.spec
    return (
        pods.is_charged(pod, now),
        id(spec.containers),
        id(spec.init_containers),
        _texts(spec.overhead),
        _stated(spec.resources),
        is_resize_infeasible(pod),
        tuple(
            (each.name, _stated(each.resources), _texts(each.allocated_resources))
            for each in resized_statuses(pod)
        ),
    )


def _stated(resources: ResourceRequirements | None) -> Hashable | None:
    if resources is None:
        return None
    return _texts(resources.requests), _texts(resources.limits)


def _texts(stated: Mapping[str, str] | None) -> Hashable | None:
    return None if stated is None else tuple(stated.items())


def pod_evaluator(*, pod_level: bool) -> Evaluator:
    """Return the evaluator of pods.

    `pod_level` is the gate PodLevelResources: the pod's own `spec.resources` count.
    """
    return Evaluator(
        PODS.group,
        PODS.plural,
        pods.tracks,
        lambda pod, now: pods.pod_usage(pod, now, pod_level=pod_level),
        pods.footprint,
        lambda requirement, pod: scopes.pod_meets(
            requirement, pod, pod_level=pod_level
        ),
        lambda pod, limited: pods.missing_statements(pod, limited, pod_level=pod_level),
        charges_update=lambda old, new: (
            scopes.has_deadline(old) != scopes.has_deadline(new)
        ),
        charged_subresources=("resize",),
        shape=_shape_of_pod,
    )


SERVICE_EVALUATOR: Final = Evaluator(
    SERVICES.group,
    SERVICES.plural,
    _TRACKED_OF_SERVICE.__contains__,
    lambda service, _: service_usage(service),
    lambda service, _: service_usage(service),
    charges_update=_always,
)

CLAIM_EVALUATOR: Final = Evaluator(
    CLAIMS.group,
    CLAIMS.plural,
    tracks_claim,
    lambda claim, _: claim_usage(claim),
    lambda claim, _: (claim_usage(claim), frozenset(attributes_classes_of(claim))),
    scopes.claim_meets,
    charges_update=_always,
    charged_subresources=("status",),
)


def device_claim_evaluator(
    extended_resources: Callable[[], Mapping[str, str] | None],
    charged_to_pod: Callable[[ResourceClaim, datetime], Amounts],
) -> Evaluator:
    """Return the evaluator of claims to devices.

    `extended_resources` returns the extended resource that each device class names,
    "" if it names none, and `None` while the classes are not known. `charged_to_pod`
    returns the usage of the pod for which a claim was made.
    """

    def usage(claim: ResourceClaim, now: datetime) -> Amounts:
        return device_claims.resource_claim_usage(
            claim, extended_resources() or {}, charged_to_pod(claim, now)
        )

    return Evaluator(
        RESOURCE_CLAIMS.group,
        RESOURCE_CLAIMS.plural,
        lambda name: device_claims.tracks(name, extended_resources()),
        usage,
        lambda claim, _: claim.spec,
        charges_update=_always,
    )


def count_evaluator(group: str, plural: str) -> Evaluator:
    """Return the evaluator of a resource whose objects are only counted."""
    names = names_of_count(group, plural)
    usage = dict.fromkeys(names, Quantity.of(1))
    return Evaluator(
        group, plural, names.__contains__, lambda _, __: usage, lambda _, __: None
    )
