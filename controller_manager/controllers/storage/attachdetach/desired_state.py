"""The desired state of the world: the volumes that the pods of a node need.

Upstream: cache/desired_state_of_world.go, and its populator. There the state is a map
of all nodes. Here it is read from the caches for one node at a time.
"""

from msgspec import Struct

from controller_manager.api.core.v1 import PODS, Node, Pod
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import key_of
from controller_manager.api.pods import has_stopped
from controller_manager.control.pods_by_node import PODS_BY_NODE
from controller_manager.runtime.context import ControllerContext

from .nodes import keeps_volumes_of_ended_pods
from .volumes import Unresolved, Volume, Volumes


class DesiredVolumes(Struct, frozen=True):
    """The volumes that the pods of a node need.

    - `volumes`: the volumes and their pods, by unique name.
    - `unresolved`: the volumes that the caches do not show yet.
    - `used`: the unique names of the volumes of all pods, also of ended pods.
    """

    volumes: dict[str, tuple[Volume, tuple[Pod, ...]]]
    unresolved: tuple[Unresolved, ...]
    used: tuple[str, ...]

    def may_include(self, volume: PersistentVolume) -> bool:
        """Tell whether an unresolved volume may be this persistent volume."""
        reference = volume.spec.claim_ref
        claim = f"{reference.namespace}/{reference.name}" if reference else ""
        return any(
            each.claim == claim or each.persistent_volume == volume.metadata.name
            for each in self.unresolved
        )


class DesiredState:
    """Reads the volumes that the pods of a node need."""

    def __init__(self, context: ControllerContext, volumes: Volumes) -> None:
        """Take the context and the volumes of pods; watch pods."""
        self._volumes = volumes
        self._pods = context.lister(PODS, PODS_BY_NODE)

    def of(self, name: str, node: Node | None) -> DesiredVolumes:
        """Return the volumes that the pods of a node need; ended pods need none."""
        volumes: dict[str, tuple[Volume, tuple[Pod, ...]]] = {}
        unresolved: list[Unresolved] = []
        used: list[str] = []
        keeps = keeps_volumes_of_ended_pods(node)
        on_node = (
            each
            for each in self._pods.by_index(PODS_BY_NODE, name)
            if each.spec.volumes
        )
        for pod in sorted(on_node, key=key_of):
            needs = keeps or not has_stopped(pod)
            for found in self._volumes.of(pod):
                if isinstance(found, Volume):
                    used.append(found.unique_name)
                    first, pods = volumes.get(found.unique_name, (found, ()))
                    if needs and pod not in pods:
                        volumes[found.unique_name] = (first, (*pods, pod))
                elif needs:
                    unresolved.append(found)
        return DesiredVolumes(volumes, tuple(unresolved), tuple(used))
