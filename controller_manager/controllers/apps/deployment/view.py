"""What one sync of a deployment knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.core.v1 import Pod
from controller_manager.client.errors import AlreadyExists
from controller_manager.controllers.apps.deployment.rollout import Rollout


@dataclass(frozen=True, slots=True)
class Created:
    """The API server has created the new replica set."""


@dataclass(frozen=True, slots=True)
class NameTaken:
    """There is a replica set of that name already: `namesake`, as just read.

    `error` is how the API server refused the new one.
    """

    namesake: ReplicaSet
    error: AlreadyExists


@dataclass(frozen=True, slots=True)
class NamesakeUsed:
    """That replica set is one of ours after all, and is the new one."""


@dataclass(frozen=True, slots=True)
class NamespaceTerminating:
    """Nothing can be created, since the namespace is being deleted."""


@dataclass(frozen=True, slots=True)
class CreationFailed:
    """The API server refused the new replica set, or gave no answer."""

    name: str
    error: Exception


Creation = Created | NameTaken | NamesakeUsed | NamespaceTerminating | CreationFailed
"""What came of the attempt to create the new replica set."""


class View(Struct, frozen=True, kw_only=True):
    """A deployment, and what a sync knows about it; an immutable value.

    A sync begins with the deployment as it is cached. The answers to its actions
    add the rest. (A Struct, since each sync makes several of them: a frozen
    dataclass of eight fields takes ten times as long to make.)
    """

    rollout: Rollout
    """The deployment and its replica sets; without any until they are claimed."""

    claimed: bool = False
    """Whether the replica sets have been adopted and released, and are known."""

    old_pods: tuple[Pod, ...] = ()
    """Cached pods of old replica sets; known for the strategy Recreate only."""

    is_reread: bool = False
    """Whether doubtful replica sets were read again at this version already."""

    counts_terminating: bool = True
    """The feature gate DeploymentReplicaSetTerminatingReplicas."""

    patched: frozenset[str] = frozenset()
    """The uids of replica sets that this sync has patched."""

    creation: Creation | None = None
    """What came of creating the new replica set in this sync, if it was tried."""

    stored: Mapping[str, Any] | None = None
    """The deployment as just read, with all fields; read for a rollback only."""

    @classmethod
    def of(
        cls, deployment: Deployment, *, is_reread: bool, counts_terminating: bool
    ) -> "View":
        """Return what is known at the beginning of a sync."""
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
        """Whether there was a new replica set before this sync tried to create it."""
        return self.rollout.new is not None and self.creation is None
