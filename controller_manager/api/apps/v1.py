"""apps/v1: deployments, replica sets, stateful sets, daemon sets and revisions.

Workloads: the fields that all kinds with replicas have.
"""

from msgspec import Raw
from msgspec.structs import force_setattr

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import PodTemplateSpec, ReplicationController
from controller_manager.api.meta import APIStruct, CompleteObject, KubeObject, Resource
from controller_manager.api.scalars import IntOrString
from controller_manager.api.selectors import LabelSelector

POD_TEMPLATE_HASH = "pod-template-hash"
"""The label that distinguishes the pods of one template from those of others."""


class RollingUpdateDeployment(APIStruct, frozen=True):
    """The bounds on missing and additional replicas during a rolling update."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DeploymentStrategy(APIStruct, frozen=True):
    """The strategy by which new pods replace old ones."""

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


class RollingUpdateStatefulSetStrategy(APIStruct, frozen=True):
    """The bounds of the rolling update of a stateful set."""

    max_unavailable: IntOrString | None = None
    partition: int | None = None


class StatefulSetUpdateStrategy(APIStruct, frozen=True):
    """The strategy by which the pods of a stateful set are updated."""

    type: str = ""
    rolling_update: RollingUpdateStatefulSetStrategy | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(APIStruct, frozen=True):
    """The fate of claims when the set is deleted or scaled down."""

    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetOrdinals(APIStruct, frozen=True):
    """The number of the first pod."""

    start: int = 0


class StatefulSetSpec(APIStruct, frozen=True):
    """All of a stateful set's spec."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] | None = None
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: (
        StatefulSetPersistentVolumeClaimRetentionPolicy | None
    ) = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetCondition(APIStruct, frozen=True):
    """One condition of a stateful set."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class StatefulSetStatus(APIStruct, frozen=True):
    """All of a stateful set's status."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[StatefulSetCondition, ...] | None = None
    available_replicas: int = 0


class StatefulSet(CompleteObject, frozen=True):
    """A stateful set: pods with an identity that outlives each of them."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class RollingUpdateDaemonSet(APIStruct, frozen=True):
    """The bounds on missing and additional pods during a rolling update."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DaemonSetUpdateStrategy(APIStruct, frozen=True):
    """The strategy by which the pods of a daemon set are updated."""

    type: str = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(APIStruct, frozen=True):
    """All of a daemon set's spec."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetCondition(APIStruct, frozen=True):
    """One condition of a daemon set."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class DaemonSetStatus(APIStruct, frozen=True):
    """All of a daemon set's status: numbers of nodes, by the state of their pod."""

    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[DaemonSetCondition, ...] | None = None


class DaemonSet(CompleteObject, frozen=True):
    """A daemon set: one pod on each suitable node."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(CompleteObject, frozen=True):
    """The present or a former state of a workload, with a number.

    Its data is kept as complete bytes and not decoded. The data never changes; the
    number may change.
    """

    data: Raw = Raw(b"null")
    revision: int = 0

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        force_setattr(self, "data", self.data.copy())


DEPLOYMENTS: Resource[Deployment] = Resource(
    "apps", "v1", "deployments", "Deployment", Deployment
)


REPLICASETS: Resource[ReplicaSet] = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", ReplicaSet
)


STATEFUL_SETS: Resource[StatefulSet] = Resource(
    "apps", "v1", "statefulsets", "StatefulSet", StatefulSet
)


DAEMON_SETS: Resource[DaemonSet] = Resource(
    "apps", "v1", "daemonsets", "DaemonSet", DaemonSet
)


CONTROLLER_REVISIONS: Resource[ControllerRevision] = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision", ControllerRevision
)


Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet


def desired_replicas(obj: Workload) -> int:
    """Return the desired replicas; the API server sets absent replicas to 1."""
    return 1 if obj.spec.replicas is None else obj.spec.replicas


def selector_of(obj: KubeObject) -> LabelSelector | None:
    """Return the selector of an object's spec, `None` if it has none.

    The selector of a replication controller has only labels. Owners of many kinds have
    no selector, or no spec.
    """
    selector = getattr(getattr(obj, "spec", None), "selector", None)
    if isinstance(selector, dict):
        return LabelSelector(match_labels=selector)
    return selector if isinstance(selector, LabelSelector) else None
