"""The view of a deployment's sync: the data that decisions are made from."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.core.v1 import Pod
from controller_manager.client.errors import AlreadyExists
from controller_manager.controllers.apps.deployment.rollout import Rollout


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


Creation = Created | NameTaken | ExistingUsed | NamespaceTerminating | CreationFailed
"""The result of the attempt to create the new replica set."""


class View(Struct, frozen=True, kw_only=True):
    """A deployment, and the data of its sync; an immutable value.

    A sync begins with the deployment as it is cached. The results of its actions add
    the rest. (It is a Struct, since each sync makes several of them: a frozen
    dataclass of eight fields takes ten times as long to make.)
    """

    rollout: Rollout
    """The deployment and its replica sets; it has none until they are claimed."""

    claimed: bool = False
    """Whether the replica sets have been claimed."""

    old_pods: tuple[Pod, ...] = ()
    """Cached pods of old replica sets; only for the strategy Recreate."""

    is_reread: bool = False
    """Whether replica sets were read again at this version of the deployment."""

    counts_terminating: bool = True
    """The feature gate DeploymentReplicaSetTerminatingReplicas."""

    patched: frozenset[str] = frozenset()
    """The uids of replica sets that this sync has patched."""

    creation: Creation | None = None
    """The result of creating the new replica set in this sync, if it was tried."""

    stored: Mapping[str, Any] | None = None
    """The deployment as just read, with all fields; only for a rollback."""

    @classmethod
    def of(
        cls, deployment: Deployment, *, is_reread: bool, counts_terminating: bool
    ) -> "View":
        """Return the view at the beginning of a sync."""
        return cls(
            rollout=Rollout(deployment, None, ()),
            is_reread=is_reread,
            counts_terminating=counts_terminating,
        )

    @property
    def deployment(self) -> Deployment:
        """The deployment as it is cached."""
        return self.rollout.deployment

    @property
    def new_existed(self) -> bool:
        """Whether the new replica set existed before this sync tried to create it."""
        return self.rollout.new is not None and self.creation is None
