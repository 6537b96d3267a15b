"""The admission plugins ResourceQuota and LimitRanger."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from controller_manager.api.core import claims, v1
from controller_manager.api.core.resources import ResourceQuota as Quota
from controller_manager.api.core.services import SERVICES
from controller_manager.api.dynamicresources.v1 import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    ResourceClaim,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import KubeObject, Resource
from controller_manager.api.quantity import ZERO, Quantity
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
    larger,
    masked,
    printed,
)
from controller_manager.control.quota.scopes import requirements_of
from controller_manager.devcluster.apiserver.admission import Operation, Write
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.scheme.statuses import invalid_object, too_long

from . import writes

# Compares objects with the limits of a LimitRange
# (plugin/pkg/admission/limitranger).

_Constraint = Callable[[str, str, Quantity, Amounts, Amounts], str]

_MOST: Final = 2**63 - 1
_MOST_MILLI: Final = _MOST // 1000
"""Larger amounts are compared in whole numbers (resource.MaxMilliValue)."""


def exceeded_limits(limit: JSON, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield why requests and limits violate an item of a LimitRange."""
    for field, check in _CONSTRAINTS:
        for name, enforced in sorted(amounts(limit.get(field)).items()):
            if why := check(limit["type"], name, enforced, requests, limits):
                yield why


def exceeded_by_claim(limit: JSON, requests: Amounts) -> Iterator[str]:
    """Yield why the requests of a volume claim violate an item of a LimitRange."""
    for field in ("min", "max"):
        for name, enforced in sorted(amounts(limit.get(field)).items()):
            about = _about(field, name, limit["type"], enforced)
            request = requests.get(name)
            if request is None:
                yield f"{about}.  No request is specified"
            elif _is_beyond(field, request, enforced):
                yield f"{about}, but request is {request}"


def _about(field: str, name: str, kind: str, enforced: Quantity) -> str:
    return f"{field}imum {name} usage per {kind} is {enforced}"


def _is_beyond(field: str, amount: Quantity, enforced: Quantity) -> bool:
    return amount < enforced if field == "min" else amount > enforced


def _outside(
    field: str,
    kind: str,
    name: str,
    enforced: Quantity,
    requests: Amounts,
    limits: Amounts,
) -> str:
    about = _about(field, name, kind, enforced)
    stated = [("request", requests.get(name)), ("limit", limits.get(name))]
    if field == "max":
        stated.reverse()
    if stated[0][1] is None:
        return f"{about}.  No {stated[0][0]} is specified"
    for what, amount in stated:
        if amount is not None and _is_beyond(field, amount, enforced):
            return f"{about}, but {what} is {amount}"
    return ""


def _above_ratio(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> str:
    about = f"{name} max limit to request ratio per {kind} is {enforced}"
    request, limit = requests.get(name), limits.get(name)
    if request is None or request.is_zero:
        return f"{about}, but no request is specified or request is 0"
    if limit is None or limit.is_zero:
        return f"{about}, but no limit is specified or limit is 0"
    if max(each.value for each in (request, limit, enforced)) <= _MOST_MILLI:
        ratio = limit.milli_value / request.milli_value
    else:
        ratio = min(limit.value, _MOST) / min(request.value, _MOST)
    if enforced.value > _MOST_MILLI:
        is_above = ratio > enforced.value
    else:
        is_above = ratio * 1000 > enforced.milli_value
    return f"{about}, but provided ratio is {ratio:f}" if is_above else ""


_CONSTRAINTS: Final[tuple[tuple[str, _Constraint], ...]] = (
    ("min", partial(_outside, "min")),
    ("max", partial(_outside, "max")),
    ("maxLimitRequestRatio", _above_ratio),
)


# The admission plugin LimitRanger: default requests and limits, and their bounds.

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_LONGEST: Final = 256 * 1024
"""Bytes of all annotations of an object."""

_MOST_PROBLEMS: Final = 1000
"""The most errors in a message: each container may violate each limit."""

_OF_PODS: Final = ("cpu", "memory")
"""The resources that a pod may state at its own level."""

_LISTS: Final = (("containers", "container"), ("initContainers", "init container"))
"""The lists of containers, and the name of a list's items in the annotation."""


class LimitRanger(writes.BuiltInPlugin):
    """Fills in requests and limits of containers; checks containers and claims."""

    name: ClassVar = "LimitRanger"
    targets: ClassVar = writes.PODS | writes.CLAIMS
    mutates: ClassVar = frozenset((Operation.CREATE,))
    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def mutate(self, write: Write) -> None:
        """Fill in the defaults of each limit range; the first default counts."""
        if writes.concerns(write, "", "pods"):
            for limits in self._limits(write.namespace):
                _fill_in(write, limits)

    def validate(self, write: Write) -> None:
        """Raise Refusal if an object violates a limit range."""
        if writes.concerns(write, "", "pods"):
            # The resources of an existing pod cannot change.
            check = _exceeded_by_pod if write.operation is Operation.CREATE else None
        else:
            check = _exceeded_by_claim
        if check is None or "deletionTimestamp" in writes.object_of(write)["metadata"]:
            return
        for limits in self._limits(write.namespace):
            found = islice(check(writes.spec_of(write), limits), _MOST_PROBLEMS)
            if problems := list(dict.fromkeys(found)):
                why = ", ".join(problems)
                raise writes.refused(write, why if len(problems) == 1 else f"[{why}]")

    def _limits(self, namespace: str) -> list[list[JSON]]:
        found = [
            stored.obj
            for stored in self._storage.collection("limitranges")
            if stored.obj["metadata"]["namespace"] == namespace
        ]
        found.sort(key=lambda each: str(each["metadata"]["name"]))
        return [(each.get("spec") or {}).get("limits") or [] for each in found]


def _fill_in(write: Write, limits: Iterable[JSON]) -> None:
    """Fill in the defaults for containers, and list them in an annotation.

    Raises Refusal if the annotation is too long because of many defaults.
    """
    pod = writes.object_of(write)
    for_containers = [each for each in limits if each["type"] == "Container"]
    defaults = {
        "limits": _merged(each.get("default") for each in for_containers),
        "requests": _merged(each.get("defaultRequest") for each in for_containers),
    }
    done: list[str] = []
    size = 0
    for name, called in _LISTS:
        for container in pod["spec"].get(name) or ():
            texts = list(_filled_in(container, called, defaults))
            done += texts
            size += sum(len(text) for text in texts)
            if size > _LONGEST:
                cause = too_long("metadata.annotations", _LONGEST)
                raise invalid_object("", "Pod", write.shown_name, [cause])
    if done:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(done)}"


def _merged(each: Iterable[Mapping[str, str] | None]) -> dict[str, str]:
    return {name: text for found in each for name, text in (found or {}).items()}


def _filled_in(
    container: JSON, called: str, defaults: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Fill in the resources of a container; yield the texts for the annotation."""
    resources = container.setdefault("resources", {})
    missing = {
        field: {
            name: text
            for name, text in defaults[field].items()
            if name not in (resources.get(field) or {})
        }
        for field in ("limits", "requests")
    }
    for field, found in missing.items():
        if found:
            resources[field] = {**(resources.get(field) or {}), **found}
    for field in ("requests", "limits"):
        if found := missing[field]:
            names, what = ", ".join(sorted(found)), field.removesuffix("s")
            yield f"{names} {what} for {called} {container.get('name', '')}"


def _exceeded_by_pod(spec: JSON, limits: Iterable[JSON]) -> Iterator[str]:
    containers = [each for name, _ in _LISTS for each in spec.get(name) or ()]
    for limit in limits:
        if limit["type"] == "Container":
            for container in containers:
                resources = container.get("resources") or {}
                requests = amounts(resources.get("requests"))
                most = amounts(resources.get("limits"))
                yield from exceeded_limits(limit, requests, most)
        elif limit["type"] == "Pod":
            yield from exceeded_limits(
                limit, _of_pod(spec, "requests"), _of_pod(spec, "limits")
            )


def _exceeded_by_claim(spec: JSON, limits: Iterable[JSON]) -> Iterator[str]:
    requests = amounts((spec.get("resources") or {}).get("requests"))
    for limit in limits:
        if limit["type"] == "PersistentVolumeClaim":
            yield from exceeded_by_claim(limit, requests)


def _of_pod(spec: JSON, field: str) -> Amounts:
    """Return the requests or limits of a pod: the sum, or its largest init container.

    A sidecar runs beside all containers that start after it.
    """
    total: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    largest: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        total = added(total, _stated(container, field))
    for container in spec.get("initContainers") or ():
        stated = _stated(container, field)
        if container.get("restartPolicy") == "Always":
            total, sidecars = added(total, stated), added(sidecars, stated)
            stated = sidecars
        else:
            stated = added(stated, sidecars)
        largest = larger([largest, stated])
    of_pod = _stated(spec, field).items()
    stated = {name: amount for name, amount in of_pod if name in _OF_PODS}
    return {**larger([total, largest]), **stated}


def _stated(holder: JSON, field: str) -> dict[str, Quantity]:
    return amounts((holder.get("resources") or {}).get(field))


# Checks objects against quotas (CheckRequest of apiserver's resourcequota plugin).


def handles(evaluator: Evaluator, new: Any, old: Any | None, subresource: str) -> bool:
    """Tell whether quotas may charge for a write, which may replace `old` (Handles)."""
    if subresource:
        return old is not None and subresource in evaluator.charged_subresources
    return old is None or evaluator.charges_update(old, new)


def check(
    quota: Quota, evaluator: Evaluator, new: Any, old: Any | None, now: datetime
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


class ResourceQuota(writes.BuiltInPlugin):
    """Refuses writes that exceed a quota, and charges quotas for the others."""

    name: ClassVar = "ResourceQuota"
    covers_own_writes: ClassVar = True

    def __init__(self, parts: writes.Parts) -> None:
        super().__init__(parts)
        features = parts.features
        self._pods = pod_evaluator(pod_level=features.is_enabled(POD_LEVEL_RESOURCES))
        if features.is_enabled(EXTENDED_RESOURCES):
            devices = device_claim_evaluator(
                self._extended_resources, self._charged_to_pod
            )
        else:
            devices = device_claim_evaluator(dict, lambda _, __: {})
        evaluators: tuple[tuple[Resource[Any], Evaluator], ...] = (
            (v1.PODS, self._pods),
            (SERVICES, SERVICE_EVALUATOR),
            (claims.CLAIMS, CLAIM_EVALUATOR),
            (RESOURCE_CLAIMS, devices),
        )
        self._evaluators = {
            (of.group, of.plural): (evaluator, of.type) for of, evaluator in evaluators
        }

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
        now = self._parts.clock.now()
        charged = []
        for quota in quotas:
            used, why = check(quota, evaluator, new_typed, old_typed, now)
            if why:
                raise writes.refused(write, why)
            if used is not None:
                charged.append((quota, printed(used)))
        if not write.is_dry_run:
            for quota, texts in charged:
                self._store(quota, texts)

    def _quotas(self, namespace: str) -> list[Quota]:
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
        name = (kind.group, kind.plural)
        if name not in self._evaluators:
            return count_evaluator(*name), new, old
        evaluator, form = self._evaluators[name]
        before = None if old is None else _decoded(old, form)
        return evaluator, _decoded(new, form), before

    def _extended_resources(self) -> dict[str, str]:
        """Return the extended resource that each device class names, "" for none."""
        return {
            each.metadata.name: each.spec.extended_resource_name or ""
            for each in self._stored(DEVICE_CLASSES)
        }

    def _charged_to_pod(self, claim: ResourceClaim, now: datetime) -> Amounts:
        name, uid = pod_of(claim)
        namespace = claim.metadata.namespace
        found = self._storage.collection(v1.PODS.plural).get((namespace, name))
        pod = None if found is None else _decoded(found.obj, v1.PODS.type)
        if pod is None or pod.metadata.uid != uid:
            return NOTHING
        device_claims = (
            each
            for each in self._stored(RESOURCE_CLAIMS)
            if each.metadata.namespace == namespace and pod_of(each) == (name, uid)
        )
        return (
            self._pods.usage(pod, now)
            if stands_for(claim, pod, device_claims)
            else NOTHING
        )

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


PLUGINS: Final = (LimitRanger, ResourceQuota)
