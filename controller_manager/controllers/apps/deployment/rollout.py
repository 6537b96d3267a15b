"""A deployment with its replica sets, and which of them is the new one."""

from collections.abc import Iterable

from msgspec import Struct

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.controllers.apps.deployment.templates import equality_with


class Rollout(Struct, frozen=True):
    """A deployment and its replica sets, as one sync sees them.

    `new` is the replica set with the current template, if it exists; `old` has all
    others.
    """

    deployment: Deployment
    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        """All replica sets, the new one last."""
        return self.old if self.new is None else (*self.old, self.new)

    def replace(self, changed: ReplicaSet) -> "Rollout":
        """Return the rollout with a newer version of one replica set."""

        def newest(replica_set: ReplicaSet) -> ReplicaSet:
            same = replica_set.metadata.uid == changed.metadata.uid
            return changed if same else replica_set

        new = newest(self.new) if self.new is not None else None
        return Rollout(self.deployment, new, tuple(map(newest, self.old)))


def find_rollout(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> Rollout:
    """Return the rollout: split the replica sets into the new one and old ones.

    If several have the current template, the oldest of them is the new one, so that
    every sync chooses the same.
    """
    ordered = sorted(replica_sets, key=by_age)
    is_current = equality_with(deployment.spec.template)
    new = next((each for each in ordered if is_current(each.spec.template)), None)
    return Rollout(deployment, new, tuple(each for each in ordered if each is not new))


def by_age(replica_set: ReplicaSet) -> tuple[str, str]:
    """Sort key: older first, then by name."""
    metadata = replica_set.metadata
    return metadata.creation_timestamp or "", metadata.name
