"""Checks objects against quotas (CheckRequest of apiserver's resourcequota plugin).

The functions are pure: the caller stores the usage that is returned.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.resources import ResourceQuota as Quota
from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    ResourceClaim,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import KubeObject, Resource
from controller_manager.api.quantity import ZERO, Quantity
from controller_manager.clock import Clock
from controller_manager.control.gates import EXTENDED_RESOURCES, POD_LEVEL_RESOURCES
from controller_manager.control.quota.device_claims import pod_of, stands_for
from controller_manager.control.quota.evaluators import (
    CLAIM_EVALUATOR,
    SERVICE_EVALUATOR,
    Evaluator,
    count_evaluator,
    device_claim_evaluator,
    pod_evaluator,
)
from controller_manager.control.quota.resources import (
    NOTHING,
    Amounts,
    added,
    amounts,
    is_counted,
    masked,
    printed,
)
from controller_manager.control.quota.scopes import requirements_of
from controller_manager.devcluster.apiserver.admission import Plugin, Write
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.storage import Storage
from controller_manager.options.gates import FeatureGates

from .writes import refused

# Checks objects against quotas (CheckRequest of apiserver's resourcequota plugin).


def handles(evaluator: Evaluator, new: Any, old: Any | None, subresource: str) -> bool:
    """Tell whether quotas may charge for a write, which may replace `old` (Handles)."""
    if subresource:
        return old is not None and subresource in evaluator.charged_subresources
    return old is None or evaluator.charges_update(old, new)


def check(
    quota: Quota,
    evaluator: Evaluator,
    new: Any,
    old: Any | None,
    now: datetime,
) -> tuple[Amounts | None, str]:
    """Return the usage of a quota with an object, and the reason for a refusal.

    The usage is `None` if the quota does not count the object. The reason is empty, or
    in the words of the API server. Only limits that the status shows are enforced.
    """
    limits = amounts(quota.status.hard)
    limited = [name for name in limits if evaluator.tracks(name)]
    if not limited or not _selects(quota, evaluator, new):
        return None, ""
    name = quota.metadata.name
    if missing := evaluator.missing(new, limited):
        return None, f"failed quota: {name}: {missing}"
    used = amounts(quota.status.used)
    if any(each not in used for each in limited):
        return None, f"status unknown for quota: {name}, resources: {_listed(limited)}"
    usage = evaluator.usage(new, now)
    if negative := [each for each in usage if usage[each] < ZERO]:
        return None, f"quota usage is negative for resource(s): {_listed(negative)}"
    if old is not None and _selects(quota, evaluator, old):
        usage = _growth(usage, evaluator.usage(old, now))
    return _charged(quota, usage, limits, used)


def _growth(new: Amounts, old: Amounts) -> Amounts:
    """Return the growth of each resource of `new`; it is zero for one that shrinks."""
    differences = {name: new[name] - old.get(name, ZERO) for name in new}
    return {
        name: each if each > ZERO else Quantity(0, each.format)
        for name, each in differences.items()
    }


def _selects(quota: Quota, evaluator: Evaluator, obj: object) -> bool:
    return all(evaluator.meets(each, obj) for each in requirements_of(quota.spec))


def _charged(
    quota: Quota, usage: Amounts, limits: Amounts, used: Amounts
) -> tuple[Amounts | None, str]:
    """Return the usage with the requested amounts, and the reason for a refusal."""
    requested = {
        name: each for name, each in masked(usage, limits).items() if each.nanos
    }
    if not requested:
        return None, ""
    total: dict[str, Quantity] = added(used, requested)
    if over := sorted(name for name in requested if total[name] > limits[name]):
        return None, (
            f"exceeded quota: {quota.metadata.name}, "
            f"requested: {_pairs(requested, over)}, used: {_pairs(used, over)}, "
            f"limited: {_pairs(limits, over)}"
        )
    return total, ""


def _listed(names: Collection[str]) -> str:
    return ",".join(sorted(names))


def _pairs(values: Amounts, names: Collection[str]) -> str:
    """Print some amounts (prettyPrint)."""
    return ",".join(
        f"{name}={values[name]}" for name in sorted(names) if name in values
    )


# The admission plugin ResourceQuota: charges quotas for new and changed objects.

ObjectT = TypeVar("ObjectT", bound=KubeObject)

_QUOTAS: Final = "resourcequotas"


class ResourceQuota(Plugin):
    """Refuses writes that exceed a quota, and charges quotas for the others."""

    name: ClassVar = "ResourceQuota"
    covers_own_writes: ClassVar = True

    def __init__(self, storage: Storage, clock: Clock, features: FeatureGates) -> None:
        self._storage = storage
        self._clock = clock
        pods = pod_evaluator(pod_level=features.is_enabled(POD_LEVEL_RESOURCES))
        self._evaluators = {
            (PODS.group, PODS.plural): (pods, PODS.type),
            (SERVICES.group, SERVICES.plural): (SERVICE_EVALUATOR, SERVICES.type),
            (CLAIMS.group, CLAIMS.plural): (CLAIM_EVALUATOR, CLAIMS.type),
        }
        self._pods = pods
        if features.is_enabled(EXTENDED_RESOURCES):
            self._claim_evaluator = device_claim_evaluator(
                self._extended_resources, self._charged_to_pod
            )
        else:
            self._claim_evaluator = device_claim_evaluator(dict, lambda _, __: {})

    def charge(self, write: Write) -> None:
        """Charge quotas for an object before it is stored, unless it is a dry run.

        All quotas are checked before one is charged. Raises Refusal.
        """
        kind, new, old = write.kind, write.obj, write.old
        if new is None:
            return
        namespace = new["metadata"].get("namespace", "")
        quotas = self._quotas(namespace) if namespace else []
        if not quotas or not is_counted(kind.group, kind.plural):
            return
        evaluator, new_typed, old_typed = self._typed(kind, new, old)
        if not handles(evaluator, new_typed, old_typed, write.subresource):
            return
        now = self._clock.now()
        charged = []
        for quota in quotas:
            used, why = check(quota, evaluator, new_typed, old_typed, now)
            if why:
                raise refused(write, why)
            if used is not None:
                charged.append((quota, printed(used)))
        if not write.is_dry_run:
            for quota, texts in charged:
                self._store(quota, texts)

    def _quotas(self, namespace: str) -> list[Quota]:
        """Return the quotas of a namespace, by name."""
        stored = (
            each.obj
            for each in self._storage.collection(_QUOTAS)
            if each.obj["metadata"]["namespace"] == namespace
        )
        found = [msgspec.convert(each, Quota) for each in stored]
        return sorted(found, key=lambda quota: quota.metadata.name)

    def _typed(
        self, kind: Kind, new: JSON, old: JSON | None
    ) -> tuple[Evaluator, Any, Any]:
        """Return the evaluator of a kind, and the objects in the form that it reads."""
        name = (kind.group, kind.plural)
        if name == (RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural):
            evaluator = self._claim_evaluator
            form: Any = RESOURCE_CLAIMS.type
        elif name in self._evaluators:
            evaluator, form = self._evaluators[name]
        else:
            return count_evaluator(*name), new, old
        before = None if old is None else _decoded(old, form)
        return evaluator, _decoded(new, form), before

    def _extended_resources(self) -> dict[str, str]:
        """Return the extended resource that each device class names, "" for none."""
        return {
            each.metadata.name: each.spec.extended_resource_name or ""
            for each in self._stored(DEVICE_CLASSES)
        }

    def _charged_to_pod(self, claim: ResourceClaim, now: datetime) -> Amounts:
        """Return the usage that quotas charge to the pod of a claim to devices."""
        name, uid = pod_of(claim)
        namespace = claim.metadata.namespace
        found = self._storage.collection(PODS.plural).get((namespace, name))
        pod = None if found is None else _decoded(found.obj, PODS.type)
        if pod is None or pod.metadata.uid != uid:
            return NOTHING
        claims = (
            each
            for each in self._stored(RESOURCE_CLAIMS)
            if each.metadata.namespace == namespace and pod_of(each) == (name, uid)
        )
        return self._pods.usage(pod, now) if stands_for(claim, pod, claims) else NOTHING

    def _stored(self, resource: Resource[ObjectT]) -> Iterator[ObjectT]:
        for each in self._storage.collection(f"{resource.plural}.{resource.group}"):
            found: ObjectT = _decoded(each.obj, resource.type)
            yield found

    def _store(self, quota: Quota, used: dict[str, str]) -> None:
        collection = self._storage.collection(_QUOTAS)
        key = (quota.metadata.namespace, quota.metadata.name)
        stored = collection.get(key)
        if stored is not None:
            status = {**stored.obj.get("status", {}), "used": used}
            collection.put(key, {**stored.obj, "status": status})


def _decoded(obj: JSON, form: Any) -> Any:
    """Return an object in a form; only a decoder fills the fields kept as bytes."""
    return msgspec.json.decode(msgspec.json.encode(obj), type=form)
