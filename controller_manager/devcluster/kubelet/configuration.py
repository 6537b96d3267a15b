"""The config maps and secrets that pods need, and the pods that wait for them.

Upstream: makeEnvironmentVariables in pkg/kubelet/kubelet_pods.go, and the plugins
configmap, secret and projected in pkg/volume.
"""

from collections.abc import Container, Iterator, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.csi.driver import Waiting
from controller_manager.devcluster.registry.core.configuration import (
    CONFIG_MAPS as CONFIG_MAP,
)
from controller_manager.devcluster.registry.core.configuration import SECRETS as SECRET
from controller_manager.devcluster.storage import Key, Storage

from .events import Reporter, warning

_ROOT_CA: Final = "kube-root-ca.crt"
"""A config map of a controller that may not run here: pods start without it."""

_ALL: Final = ""


class Source(Struct, frozen=True):
    """A config map or a secret that a pod needs, and one of its keys, or all."""

    resource: str
    key: Key
    item: str = _ALL

    @property
    def not_found(self) -> str:
        """The kubelet's message if the object does not exist."""
        return f'{self.resource} "{self.key[1]}" not found'

    @property
    def no_item(self) -> str:
        """The kubelet's message about a volume if the object lacks the key."""
        if self.resource == "configmap":
            return f"configmap references non-existent config key: {self.item}"
        return f"references non-existent secret key: {self.item}"


class Configuration:
    """Finds missing config maps and secrets of pods."""

    def __init__(self, storage: Storage) -> None:
        self._collections = {
            "configmap": storage.collection(CONFIG_MAP.resource),
            "secret": storage.collection(SECRET.resource),
        }

    def problem_of_container(self, pod: JSON, container: JSON) -> str:
        """Return why the variables of a container cannot be made, empty if they can."""
        for source in _of_container(pod, container):
            data = self._data(source)
            if data is None:
                return source.not_found
            if source.item and source.item not in data:
                namespace, name = source.key
                kind = "ConfigMap" if source.resource == "configmap" else "Secret"
                return f"couldn't find key {source.item} in {kind} {namespace}/{name}"
        return ""

    def problem_of_volumes(self, pod: JSON) -> tuple[str, str] | None:
        """Return a volume that cannot be mounted, and the reason; `None` if all can."""
        for volume in pod["spec"].get("volumes", ()):
            for source in _of_volume(pod, volume):
                data = self._data(source)
                if data is None:
                    return volume["name"], source.not_found
                if source.item and source.item not in data:
                    return volume["name"], source.no_item
        return None

    def _data(self, source: Source) -> Container[str] | None:
        """Return the keys of an object, `None` if it does not exist."""
        stored = self._collections[source.resource].get(source.key)
        if stored is None:
            return None
        obj = stored.obj
        return {*(obj.get("data") or ()), *(obj.get("binaryData") or ())}


class Sources:
    """Tells kubelets when the config maps and secrets of their pods may exist.

    Upstream kubelets poll; here a change of an object that a pod waits for makes a
    kubelet check again.
    """

    def __init__(self, configuration: Configuration, report: Reporter) -> None:
        self._configuration = configuration
        self._report = report
        self._waiting = Waiting()

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
        self._waiting.add(_key(pod), _sources_of(pod))

    def forget(self, key: Key) -> None:
        """Forget a pod that no longer waits."""
        self._waiting.discard(key)

    def waiting(self) -> Sequence[Key]:
        """Return all pods that wait."""
        return list(self._waiting)

    def waiting_for(self, resource: str, key: Key) -> Sequence[Key]:
        """Return the pods that wait for a ``configmap`` or a ``secret``."""
        return self._waiting.waiting_for((resource, key))


def _key(pod: JSON) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _sources_of(pod: JSON) -> frozenset[tuple[str, Key]]:
    spec = pod["spec"]
    found: set[tuple[str, Key]] = set()
    for each in (*spec.get("initContainers", ()), *spec["containers"]):
        found |= {(each.resource, each.key) for each in _of_container(pod, each)}
    for each in spec.get("volumes", ()):
        found |= {(each.resource, each.key) for each in _of_volume(pod, each)}
    return frozenset(found)


def _of_container(pod: JSON, container: JSON) -> Iterator[Source]:
    """Yield the needs of a container's variables, in the order of kubelets."""
    for each in container.get("envFrom") or ():
        yield from _source(pod, "configmap", each.get("configMapRef"))
        yield from _source(pod, "secret", each.get("secretRef"))
    for each in container.get("env") or ():
        value = each.get("valueFrom") or {}
        for resource, field in (
            ("configmap", "configMapKeyRef"),
            ("secret", "secretKeyRef"),
        ):
            reference = value.get(field)
            yield from _source(pod, resource, reference, (reference or {}).get("key"))


def _of_volume(pod: JSON, volume: JSON) -> Iterator[Source]:
    """Yield the needs of a volume, also of a projected volume."""
    parts = (volume.get("projected") or {}).get("sources") or ()
    for each in (volume, *parts):
        yield from _items(pod, "configmap", each.get("configMap"))
        yield from _items(pod, "secret", each.get("secret"))


def _items(pod: JSON, resource: str, reference: JSON | None) -> Iterator[Source]:
    if not reference:
        return
    items = reference.get("items") or ()
    for each in items:
        yield from _source(pod, resource, reference, each.get("key"))
    if not items:
        yield from _source(pod, resource, reference)


def _source(
    pod: JSON, resource: str, reference: JSON | None, item: str | None = _ALL
) -> Iterator[Source]:
    """Yield the source that a reference names, unless it is optional."""
    if not reference or reference.get("optional"):
        return
    name = reference.get("secretName") or reference.get("name") or ""
    if name != _ROOT_CA:
        yield Source(resource, (pod["metadata"]["namespace"], name), item or _ALL)
