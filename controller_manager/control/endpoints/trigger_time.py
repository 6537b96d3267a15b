"""The time of the change that caused a write of endpoints (trigger_time_tracker.go).

The time is in an annotation of the endpoints. Monitoring measures from it how long a
change takes to reach all nodes.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import key_of
from controller_manager.api.pods import ready_condition


class _Seen(Struct):
    """The times that the last sync saw: of the service, and of its pods."""

    service: str
    pods: dict[str, str]


class TriggerTimes:
    """Keeps, for each service, the times that its last sync saw.

    Times are texts as the API server writes them, in UTC: the order of these texts is
    the order of the times. A pod that changes several times between two syncs counts
    with its last change.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def __len__(self) -> int:
        """Return the number of known services."""
        return len(self._seen)

    def observe(self, service: Service, pods: Sequence[Pod]) -> str:
        """Return the time of the change since the last sync of the service.

        `pods` are all pods of the service. The time is the earliest of the new times of
        its pods: the last transition of their Ready conditions. At the first sync it is
        the creation of the service. It is empty if nothing has a new time: then the
        annotation is removed.
        """
        key = key_of(service)
        last = self._seen.get(key)
        times: dict[str, str] = {}
        seen = self._seen[key] = _Seen(service.metadata.creation_timestamp or "", times)
        fresh = _note(times, pods, {} if last is None else last.pods)
        return seen.service if last is None else _earliest(last, seen, fresh)

    def observe_some(
        self, service: Service, changed: Iterable[Pod], gone: Iterable[str]
    ) -> str:
        """Return the time of the change, from only the pods that have changed.

        `gone` has the names of pods that the service does not have any more. The
        service must have been observed.
        """
        last = self._seen[key_of(service)]
        for name in gone:
            last.pods.pop(name, None)
        fresh = _note(last.pods, changed, last.pods)
        seen = _Seen(service.metadata.creation_timestamp or "", last.pods)
        self._seen[key_of(service)] = seen
        return _earliest(last, seen, fresh)

    def forget(self, key: str) -> None:
        """Drop a service that is gone."""
        self._seen.pop(key, None)


def _note(
    times: dict[str, str], pods: Iterable[Pod], last: Mapping[str, str]
) -> list[str]:
    """Store the times of pods; return the times that are later than the last ones."""
    fresh = []
    for pod in pods:
        if time := _changed_at(pod):
            name = pod.metadata.name
            if time > last.get(name, ""):
                fresh.append(time)
            times[name] = time
    return fresh


def _earliest(last: _Seen, now: _Seen, fresh: list[str]) -> str:
    if now.service > last.service:
        fresh.append(now.service)
    return min(fresh, default="")


def _changed_at(pod: Pod) -> str:
    condition = ready_condition(pod)
    return "" if condition is None else condition.last_transition_time or ""
