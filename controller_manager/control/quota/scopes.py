"""Scopes select the objects of a namespace that a quota counts."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

from controller_manager.api.core.claims import (
    PersistentVolumeClaim,
    attributes_classes_of,
)
from controller_manager.api.core.resources import (
    CPU,
    MEMORY,
    ResourceQuotaSpec,
    ResourceRequirements,
    ScopedResourceSelectorRequirement,
)
from controller_manager.api.core.scheduling import crosses_namespaces
from controller_manager.api.core.v1 import Container, InitContainer, Pod
from controller_manager.api.quantity import ZERO, parse_quantity

Requirement = ScopedResourceSelectorRequirement


def requirements_of(spec: ResourceQuotaSpec) -> Sequence[Requirement]:
    """Return the requirements for counted objects: the scopes, and their selector.

    A scope without a selector requires that the object is in the scope.
    """
    scopes = (
        Requirement(scope_name=each, operator="Exists") for each in spec.scopes or ()
    )
    selector = spec.scope_selector
    return [*scopes, *((selector and selector.match_expressions) or ())]


def has_deadline(pod: Pod) -> bool:
    """Tell whether a pod is in the scope Terminating (IsTerminating)."""
    deadline = pod.spec.active_deadline_seconds
    return deadline is not None and deadline >= 0


def is_best_effort(pod: Pod, *, pod_level: bool) -> bool:
    """Tell whether the quality of service of a pod is BestEffort (GetPodQOS).

    With `pod_level` the pod's own resources (`spec.resources`) decide, if it has any.
    """
    if pod.status.qos_class:
        return pod.status.qos_class == "BestEffort"
    spec = pod.spec
    if pod_level and spec.resources is not None:
        return not _asks_for_something(spec.resources)
    containers: Iterable[Container | InitContainer] = chain(
        spec.containers or (), spec.init_containers or ()
    )
    return not any(_asks_for_something(each.resources) for each in containers)


def _asks_for_something(resources: ResourceRequirements) -> bool:
    return any(
        name in (CPU, MEMORY) and parse_quantity(amount) > ZERO
        for each in (resources.requests, resources.limits)
        for name, amount in (each or {}).items()
    )


def pod_meets(requirement: Requirement, pod: Pod, *, pod_level: bool) -> bool:
    """Tell whether a pod meets a requirement (podMatchesScopeFunc).

    `pod_level` is the argument of `is_best_effort`.
    """
    match requirement.scope_name:
        case "Terminating":
            return has_deadline(pod)
        case "NotTerminating":
            return not has_deadline(pod)
        case "BestEffort":
            return is_best_effort(pod, pod_level=pod_level)
        case "NotBestEffort":
            return not is_best_effort(pod, pod_level=pod_level)
        case "PriorityClass":
            name = pod.spec.priority_class_name
            return _has_class(requirement, {name} if name else ())
        case "CrossNamespacePodAffinity":
            return crosses_namespaces(pod.spec.affinity)
    return False


def claim_meets(requirement: Requirement, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim meets a requirement (pvcMatchesScopeFunc)."""
    if requirement.scope_name != "VolumeAttributesClass":
        return False
    return _has_class(requirement, attributes_classes_of(claim))


def _has_class(requirement: Requirement, classes: Collection[str]) -> bool:
    """Tell whether an object of these classes meets a requirement about its class.

    As label selectors do, NotIn also selects objects without a class.
    """
    values = requirement.values or ()
    match requirement.operator:
        case "Exists":
            return bool(classes)
        case "DoesNotExist":
            return not classes
        case "In":
            return any(each in values for each in classes)
        case "NotIn":
            return not classes or any(each not in values for each in classes)
    return False
