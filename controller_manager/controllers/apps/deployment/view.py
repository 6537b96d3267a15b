"""The data of one sync of a deployment, as an immutable value."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.core.v1 import Pod
from controller_manager.client.errors import AlreadyExists
from controller_manager.control.mutations import Mutation

from .pod_template import equality_with


class Rollout(Struct, frozen=True):
    """A deployment and its replica sets, as one sync sees them.

    `new` is the replica set with the current template, if it exists. `old` has all
    other replica sets.
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
    """Return the rollout: divide the replica sets into the new one and old ones.

    If several have the current template, the oldest of them is the new one. So every
    sync chooses the same one.
    """
    ordered = sorted(replica_sets, key=by_age)
    is_current = equality_with(deployment.spec.template)
    new = next((each for each in ordered if is_current(each.spec.template)), None)
    return Rollout(deployment, new, tuple(each for each in ordered if each is not new))


def by_age(replica_set: ReplicaSet) -> tuple[str, str]:
    """Return a sort key: older replica sets first, then by name."""
    metadata = replica_set.metadata
    return metadata.creation_timestamp or "", metadata.name


class Created(Struct, frozen=True):
    """The API server has created the new replica set."""


class NameTaken(Struct, frozen=True):
    """A replica set of that name exists already: `existing`, as just read.

    `error` is the API server's response to the creation of the new one.
    """

    existing: ReplicaSet
    error: AlreadyExists


class ExistingUsed(Struct, frozen=True):
    """The existing replica set of that name is used as the new one."""


class NamespaceTerminating(Struct, frozen=True):
    """No object can be created, since the namespace is being deleted."""


class CreationFailed(Struct, frozen=True):
    """The API server refused the new replica set, or did not respond."""

    name: str
    error: Exception


class Mutated(Struct, frozen=True):
    """Admission changed the template of the new replica set, or would change it."""

    mutation: Mutation


class Unchanged(Struct, frozen=True):
    """Admission would leave the new replica set as it is; it is not created yet."""


Creation = (
    Created
    | NameTaken
    | ExistingUsed
    | NamespaceTerminating
    | CreationFailed
    | Mutated
    | Unchanged
)
"""The result of the attempt to create the new replica set."""


class View(Struct, frozen=True, kw_only=True):
    """A deployment, and the data of its sync; an immutable value.

    A sync begins with the deployment as it is cached. The results of its actions add
    the rest. (The class is a Struct because each sync makes several views. Making a
    frozen dataclass of eight fields takes ten times as long.)
    """

    rollout: Rollout
    """The deployment and its replica sets; none before they are claimed."""

    claimed: bool = False
    """True if the replica sets have been claimed."""

    old_pods: tuple[Pod, ...] = ()
    """Cached pods of old replica sets; only for the strategy Recreate."""

    is_reread: bool = False
    """True if replica sets were read again at this version of the deployment."""

    counts_terminating: bool = True
    """The feature gate DeploymentReplicaSetTerminatingReplicas."""

    patched: frozenset[str] = frozenset()
    """The uids of replica sets that this sync has patched."""

    mutation: Mutation | None = None
    """The mutation of the last new replica set, `None` for none."""

    creation: Creation | None = None
    """The result of creating the new replica set in this sync, if it was tried."""

    stored: Mapping[str, Any] | None = None
    """The deployment as just read, with all fields; only for a rollback."""

    @classmethod
    def of(
        cls,
        deployment: Deployment,
        *,
        is_reread: bool,
        counts_terminating: bool,
        mutation: Mutation | None = None,
    ) -> "View":
        """Return the view at the beginning of a sync."""
        return cls(
            rollout=Rollout(deployment, None, ()),
            mutation=mutation,
            is_reread=is_reread,
            counts_terminating=counts_terminating,
        )

    @property
    def deployment(self) -> Deployment:
        """The deployment as it is cached."""
        return self.rollout.deployment

    @property
    def new_existed(self) -> bool:
        """True if the new replica set existed before this sync tried to create it."""
        return self.rollout.new is not None and self.creation is None
