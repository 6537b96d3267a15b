"""The config maps and secrets for which pods wait."""

from collections.abc import Sequence

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.nodes.configuration import Configuration, sources_of
from controller_manager.devcluster.nodes.event_notes import warning
from controller_manager.devcluster.nodes.events import Reporter
from controller_manager.devcluster.server.storage.storage import Key

_Source = tuple[str, Key]


class Sources:
    """Tells kubelets when the config maps and secrets of their pods may exist.

    Upstream kubelets poll; here a change of an object that a pod waits for makes a
    kubelet check again.
    """

    def __init__(self, configuration: Configuration, report: Reporter) -> None:
        self._configuration = configuration
        self._report = report
        self._waiting: dict[Key, frozenset[_Source]] = {}
        self._waiting_for: dict[_Source, dict[Key, None]] = {}

    def prepare(self, pod: JSON) -> bool:
        """Mount the config maps and secrets of a pod; tell whether all exist.

        If one is missing, an event says so once, and the pod waits.
        """
        problem = self._configuration.problem_of_volumes(pod)
        if problem is None:
            self.forget(_key(pod))
            return True
        if _key(pod) in self._waiting:
            return False
        volume, why = problem
        message = f'MountVolume.SetUp failed for volume "{volume}" : {why}'
        self._report.kubelet(pod, warning("FailedMount", message))
        self.wait(pod)
        return False

    def wait(self, pod: JSON) -> None:
        """Remember that a pod waits for its config maps and secrets."""
        key = _key(pod)
        self.forget(key)
        sources = self._waiting[key] = frozenset(sources_of(pod))
        for each in sources:
            self._waiting_for.setdefault(each, {})[key] = None

    def forget(self, key: Key) -> None:
        """Forget a pod that no longer waits."""
        for each in self._waiting.pop(key, ()):
            pods = self._waiting_for[each]
            del pods[key]
            if not pods:
                del self._waiting_for[each]

    def waiting(self) -> Sequence[Key]:
        """Return all pods that wait."""
        return list(self._waiting)

    def waiting_for(self, resource: str, key: Key) -> Sequence[Key]:
        """Return the pods that wait for a ``configmap`` or a ``secret``."""
        return list(self._waiting_for.get((resource, key), ()))


def _key(pod: JSON) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
