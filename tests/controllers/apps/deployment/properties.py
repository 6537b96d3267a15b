"""The properties of the deployment controller."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest import mock

from controller_manager.api.apps.v1 import DeploymentSpec, ReplicaSet
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import scaled_value
from controller_manager.controllers.apps.deployment import scaling
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import Plan
from tests.controllers.apps.deployment.workload import DeploymentUsers
from tests.simulation.changes import Path, only
from tests.simulation.objects import controller_of, lives, path_of
from tests.simulation.properties import AllowedWrite, Properties, Violate

_OURS: Final = "deployment.kubernetes.io/"
_ROLLBACK: Final = "deprecated.deployment.rollback.to"
_ANNOTATIONS: Final = ("metadata", "annotations")

_SIZES: Final = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)


def _changes_deployment(path: Path, old: Any, new: Any) -> bool:
    """Allow a rollback: a template is restored, its annotation is removed."""
    if path[:2] == _ANNOTATIONS:
        return _is_ours(path, new)
    return only(("spec", "template"))(path, old, new)


def _changes_status(path: Path, old: Any, new: Any) -> bool:
    if path[:2] == _ANNOTATIONS:
        return _is_ours(path, new)
    return only(("status",))(path, old, new)


def _is_ours(path: Path, new: Any) -> bool:
    """Tell whether only annotations of the controller itself change."""
    if len(path) == len(_ANNOTATIONS):
        return all(key.startswith(_OURS) for key in new or {})
    return path[2].startswith((_OURS, _ROLLBACK))


def _changes_replica_set(path: Path, old: Any, new: Any) -> bool:
    """Sizes, owners and annotations, which are copied and never lost."""
    if path[:2] == _ANNOTATIONS:
        return new is not None
    return only(
        ("spec", "replicas"),
        ("spec", "minReadySeconds"),
        ("metadata", "ownerReferences"),
    )(path, old, new)


class DeploymentProperties(Properties):
    """Sizes stay within the bounds; in the end the newest template runs."""

    controller = "deployment-controller"
    may_write = (
        AllowedWrite(("update",), "deployments", _changes_deployment),
        AllowedWrite(("update",), "deployments/status", _changes_status),
        AllowedWrite(("create", "delete"), "replicasets"),
        AllowedWrite(("patch",), "replicasets", _changes_replica_set),
    )
    workload = DeploymentUsers

    @contextmanager
    def watching(self, violate: Violate) -> Iterator[None]:
        """Check every plan that sizes replica sets."""
        with ExitStack() as stack:
            for name, keeps_available in _PLANNERS.items():
                planner = _checked(getattr(scaling, name), keeps_available, violate)
                stack.enter_context(mock.patch.object(scaling, name, planner))
            yield

    def end_state(self) -> JSON:
        """Return the state of every deployment as a user sees it."""
        return {
            path_of(each): self._seen_of(each)
            for each in self.state.stored("deployments")
        }

    def _seen_of(self, deployment: JSON) -> JSON:
        uid = deployment["metadata"]["uid"]
        status = deployment.get("status", {})
        replica_sets = [
            each
            for each in self.state.stored("replicasets")
            if controller_of(each) == uid
        ]
        return {
            "spec": deployment["spec"],
            "sizes": {key: status.get(key, 0) for key in _SIZES},
            "observed": status.get("observedGeneration")
            == deployment["metadata"]["generation"],
            "conditions": sorted(
                (each["type"], each["status"], each["reason"])
                for each in status.get("conditions", [])
            ),
            "running": sorted(
                (_image(each["spec"]["template"]), each["spec"]["replicas"])
                for each in replica_sets
                if each["spec"]["replicas"]
            ),
            "wrong replica sets": [
                each["metadata"]["name"]
                for each in replica_sets
                if each.get("status", {}).get("replicas") != each["spec"]["replicas"]
            ],
            "pods": self._pods_of(replica_sets),
        }

    def _pods_of(self, replica_sets: Iterable[JSON]) -> list[str]:
        """Return the images of the pods that count, sorted."""
        return sorted(
            _image(pod)
            for replica_set in replica_sets
            for pod in self.state.stored("pods")
            if lives(pod, replica_set["metadata"]["uid"])
        )


def _image(template: JSON) -> str:
    return str(template["spec"]["containers"][0]["image"])


_PLANNERS: Final = {
    "plan_rolling": True,
    "plan_scaling": False,
    "plan_scale_up": False,
}
"""The planners, and whether their plans must keep enough pods available."""


def _checked(
    planner: Callable[[Rollout], Plan], keeps_available: bool, violate: Violate
) -> Callable[[Rollout], Plan]:
    def checked(rollout: Rollout) -> Plan:
        plan = planner(rollout)
        for problem in plan_problems(rollout, plan, keeps_available):
            violate(problem)
        return plan

    return checked


def plan_problems(rollout: Rollout, plan: Plan, keeps_available: bool) -> Iterator[str]:
    """Yield how a plan breaks the bounds, by the caches of the manager.

    Of a replica set's available pods, at most as many count as its size allows.
    """
    spec = rollout.deployment.spec
    replicas = spec.replicas if spec.replicas is not None else 1
    surge, unavailable = _bounds(spec, replicas)
    before = {each.metadata.uid: each.spec.replicas or 0 for each in rollout.all}
    planned = {each.replica_set.metadata.uid: each.replicas for each in plan}
    after = {**before, **planned}
    name = rollout.deployment.metadata.name
    if sum(after.values()) > max(replicas + surge, sum(before.values())):
        yield f"{name}: a plan of {sum(after.values())} replicas, surge is {surge}"
    had, left = _available(rollout.all, before), _available(rollout.all, after)
    if keeps_available and left < min(replicas - unavailable, had):
        yield (
            f"{name}: a plan leaves {left} of {had} available ones, of {replicas} "
            f"at most {unavailable} may not be"
        )


def _bounds(spec: DeploymentSpec, replicas: int) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable in pods."""
    rolling = spec.strategy.rolling_update
    if spec.strategy.type != "RollingUpdate" or rolling is None:
        return 0, replicas
    surge = scaled_value(rolling.max_surge or 0, replicas, round_up=True)
    unavailable = scaled_value(rolling.max_unavailable or 0, replicas, round_up=False)
    return surge, unavailable or (0 if surge else 1)


def _available(replica_sets: Iterable[ReplicaSet], sizes: dict[str, int]) -> int:
    return sum(
        min(each.status.available_replicas, sizes[each.metadata.uid])
        for each in replica_sets
    )


PROPERTIES = DeploymentProperties
