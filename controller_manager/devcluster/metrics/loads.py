"""The load of pods, from annotations.

``devcluster/cpu`` and ``devcluster/memory`` are the load of a pod, which counts for its
first container. ``devcluster/cpu.NAME`` is the load of the container NAME. The
annotations of a pod have priority over those of its workload. So users can change a
load without new pods.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from controller_manager.api.json_objects import JSON

from .quantities import TOTAL, is_load, share
from .settings import SettingsError, Usage

FindOwner = Callable[[JSON], JSON | None]
"""Returns the controller of an object, `None` if there is none."""

ANNOTATION: Final = "devcluster/"
IDLE: Final = {"cpu": "1m", "memory": "8Mi"}
"""The load of a container without annotations."""


class _Load(NamedTuple):
    """A load; the pods of the same workload share a total."""

    text: str
    sharers: tuple[str, ...] = ()


_Loads = dict[str, dict[str, _Load]]
"""Loads by container and resource."""


class _Workloads:
    """Finds the workloads of pods, each once."""

    def __init__(self, find_owner: FindOwner) -> None:
        self._find_owner = find_owner
        self._known: dict[str, JSON | None] = {}

    def of(self, pod: JSON) -> JSON | None:
        """Return the outermost controller of a pod: its deployment, say."""
        uid = _controller_uid(pod)
        if uid not in self._known:
            workload, owner = None, self._find_owner(pod) if uid else None
            while owner is not None:
                workload, owner = owner, self._find_owner(owner)
            self._known[uid] = workload
        return self._known[uid]


def loads_of(
    pods: Iterable[JSON],
    find_owner: FindOwner,
    everybody: Callable[[], Iterable[JSON]] | None = None,
) -> dict[str, Usage]:
    """Return the usage of running pods of one namespace, by name.

    `everybody` returns all running pods of the namespace, among which totals are
    shared; without it, these are the `pods`. Raises SettingsError for an annotation
    that is no load.
    """
    listed, workloads = list(pods), _Workloads(find_owner)
    found = {
        pod["metadata"]["name"]: _loads_of(pod, workloads.of(pod)) for pod in listed
    }
    totals = {load.sharers for load in _each(found.values()) if load.sharers}
    counts: Counter[tuple[str, ...]] = Counter()
    if totals:
        owners = {sharers[0] for sharers in totals}
        for pod in listed if everybody is None else everybody():
            workload = workloads.of(pod)
            if _uid(workload) in owners:
                counts.update(
                    each.sharers for each in _each([_loads_of(pod, workload)])
                )
    return {
        pod: {
            container: {
                resource: share(load.text, counts[load.sharers])
                for resource, load in resources.items()
            }
            for container, resources in containers.items()
        }
        for pod, containers in found.items()
    }


def _each(loads: Iterable[_Loads]) -> Iterator[_Load]:
    for containers in loads:
        for resources in containers.values():
            yield from resources.values()


def _controller_uid(obj: JSON) -> str:
    """Return the uid of the controller of an object, empty if it has none."""
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def _uid(workload: JSON | None) -> str:
    return str(workload["metadata"]["uid"]) if workload else ""


def _loads_of(pod: JSON, workload: JSON | None) -> _Loads:
    names = [each["name"] for each in pod["spec"]["containers"]]
    sources = [each for each in (pod, workload) if each is not None]
    of_whom = _uid(workload)
    return {
        name: {
            resource: _load(sources, of_whom, resource, name, is_first=not number)
            for resource in IDLE
        }
        for number, name in enumerate(names)
    }


def _load(
    sources: list[JSON], of_whom: str, resource: str, container: str, *, is_first: bool
) -> _Load:
    keys = [f"{ANNOTATION}{resource}.{container}"]
    if is_first:
        keys.append(f"{ANNOTATION}{resource}")
    for source in sources:
        for key in keys:
            text = (source["metadata"].get("annotations") or {}).get(key)
            if text is not None:
                _check(source, key, text.strip())
                total = text.strip().startswith(TOTAL)
                sharers = (of_whom, key, text.strip()) if total else ()
                return _Load(text.strip(), sharers)
    return _Load(IDLE[resource])


def _check(source: JSON, key: str, text: str) -> None:
    if not is_load(text):
        name = source["metadata"]["name"]
        msg = (
            f"annotation {key} of {source.get('kind', 'Pod')} {name}: must be a "
            f'quantity such as "200m", or "total:2" to share it, it is {text!r}'
        )
        raise SettingsError(msg)
