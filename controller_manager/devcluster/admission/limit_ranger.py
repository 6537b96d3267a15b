"""Compares objects with the limits of a LimitRange (plugin/pkg/admission/limitranger).

All texts are upstream's; amounts are printed as they are written in the objects.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity
from controller_manager.control.quota.resources import Amounts, added, amounts, larger
from controller_manager.devcluster.apiserver.admission import Operation, Plugin, Write
from controller_manager.devcluster.scheme.statuses import invalid_object, too_long
from controller_manager.devcluster.storage import Storage

from .writes import CLAIMS, PODS, concerns, object_of, refused, spec_of

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
    for name, enforced in sorted(amounts(limit.get("min")).items()):
        if why := _below_min(limit["type"], name, enforced, requests, {}):
            yield why
    for name, enforced in sorted(amounts(limit.get("max")).items()):
        about = f"maximum {name} usage per {limit['type']} is {enforced}"
        request = requests.get(name)
        if request is None:
            yield f"{about}.  No request is specified"
        elif request > enforced:
            yield f"{about}, but request is {request}"


def _below_min(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> str:
    about = f"minimum {name} usage per {kind} is {enforced}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        return f"{about}.  No request is specified"
    if request < enforced:
        return f"{about}, but request is {request}"
    if limit is not None and limit < enforced:
        return f"{about}, but limit is {limit}"
    return ""


def _above_max(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> str:
    about = f"maximum {name} usage per {kind} is {enforced}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        return f"{about}.  No limit is specified"
    if limit > enforced:
        return f"{about}, but limit is {limit}"
    if request is not None and request > enforced:
        return f"{about}, but request is {request}"
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
    ("min", _below_min),
    ("max", _above_max),
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


class LimitRanger(Plugin):
    """Fills in requests and limits of containers; checks containers and claims."""

    name: ClassVar = "LimitRanger"
    targets: ClassVar = PODS | CLAIMS
    mutates: ClassVar = frozenset((Operation.CREATE,))
    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def mutate(self, write: Write) -> None:
        """Fill in the defaults of each limit range; the first default counts."""
        if concerns(write, "", "pods"):
            for limits in self._limits(write.namespace):
                _fill_in(write, limits)

    def validate(self, write: Write) -> None:
        """Raise Refusal if an object violates a limit range."""
        if concerns(write, "", "pods"):
            # The resources of an existing pod cannot change.
            check = _exceeded_by_pod if write.operation is Operation.CREATE else None
        else:
            check = _exceeded_by_claim
        if check is None or "deletionTimestamp" in object_of(write)["metadata"]:
            return
        for limits in self._limits(write.namespace):
            found = islice(check(spec_of(write), limits), _MOST_PROBLEMS)
            if problems := list(dict.fromkeys(found)):
                why = ", ".join(problems)
                raise refused(write, why if len(problems) == 1 else f"[{why}]")

    def _limits(self, namespace: str) -> list[list[JSON]]:
        """Return the items of each limit range of a namespace, by name."""
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
    pod = object_of(write)
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
