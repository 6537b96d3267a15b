"""The load of pods as annotations say it.

``devcluster/cpu`` and ``devcluster/memory`` are the load of a pod; its first container
bears it. ``devcluster/cpu.NAME`` is the load of the container NAME. The annotations of
a pod go before those of its workload. So a load can be changed without new pods.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from controller_manager.devcluster.metrics.quantities import is_load, share
from controller_manager.devcluster.metrics.settings import SettingsError, Usage

JSON = dict[str, Any]
FindOwner = Callable[[JSON], JSON | None]
"""Returns the controller of an object, `None` if there is none."""

ANNOTATION: Final = "devcluster/"
IDLE: Final = {"cpu": "1m", "memory": "8Mi"}
"""The load of a container of which nothing is said."""


class _Load(NamedTuple):
    """A load, and who shares it if it is a total."""

    text: str
    sharers: tuple[str, ...] = ()


def loads_of(pods: Iterable[JSON], find_owner: FindOwner) -> dict[str, Usage]:
    """Return what running pods of one namespace use, by name.

    Raises SettingsError for an annotation that is no load.
    """
    found = {
        pod["metadata"]["name"]: _loads_of(pod, _workload(pod, find_owner))
        for pod in pods
    }
    counts = Counter(
        load.sharers
        for containers in found.values()
        for resources in containers.values()
        for load in resources.values()
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


def _workload(pod: JSON, find_owner: FindOwner) -> JSON | None:
    """Return the outermost controller of a pod: its deployment, say."""
    workload, owner = None, find_owner(pod)
    while owner is not None:
        workload, owner = owner, find_owner(owner)
    return workload


def _loads_of(pod: JSON, workload: JSON | None) -> dict[str, dict[str, _Load]]:
    names = [each["name"] for each in pod["spec"]["containers"]]
    sources = [each for each in (pod, workload) if each is not None]
    of_whom = (workload or {}).get("metadata", {}).get("uid", "")
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
                return _Load(text.strip(), (of_whom, key, text.strip()))
    return _Load(IDLE[resource])


def _check(source: JSON, key: str, text: str) -> None:
    if not is_load(text):
        name = source["metadata"]["name"]
        msg = (
            f"annotation {key} of {source.get('kind', 'Pod')} {name}: must be a "
            f'quantity such as "200m", or "total:2" to share it, it is {text!r}'
        )
        raise SettingsError(msg)
