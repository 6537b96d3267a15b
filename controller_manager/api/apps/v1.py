"""apps/v1: deployments and replica sets."""

from controller_manager.api.core.v1 import PodTemplateSpec
from controller_manager.api.intstr import IntOrString
from controller_manager.api.meta import APIStruct, CompleteObject
from controller_manager.api.resource import Resource
from controller_manager.api.selectors import LabelSelector

POD_TEMPLATE_HASH = "pod-template-hash"
"""The label that distinguishes the pods of one template from those of others."""


class RollingUpdateDeployment(APIStruct, frozen=True):
    """How far a rolling update may deviate from the desired replicas."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(APIStruct, frozen=True):
    """How old pods are replaced by new ones."""

    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(APIStruct, frozen=True):
    """All of a deployment's spec."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(APIStruct, frozen=True):
    """One condition of a deployment."""

    type: str = ""
    status: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class DeploymentStatus(APIStruct, frozen=True):
    """All of a deployment's status."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] | None = None
    collision_count: int | None = None


class Deployment(CompleteObject, frozen=True):
    """A deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(APIStruct, frozen=True):
    """All of a replica set's spec."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetCondition(APIStruct, frozen=True):
    """One condition of a replica set."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ReplicaSetStatus(APIStruct, frozen=True):
    """All of a replica set's status."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[ReplicaSetCondition, ...] | None = None


class ReplicaSet(CompleteObject, frozen=True):
    """A replica set."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


DEPLOYMENTS: Resource[Deployment] = Resource(
    "apps", "v1", "deployments", "Deployment", Deployment
)


REPLICASETS: Resource[ReplicaSet] = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", ReplicaSet
)
