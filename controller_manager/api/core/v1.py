"""v1, the core group: complete types to write, projections to read."""

from msgspec import Raw, field
from msgspec.structs import force_setattr

from controller_manager.api.meta import (
    APIStruct,
    CompleteObject,
    ObjectMeta,
    PartialMetadata,
    Projection,
    Resource,
)

from . import volume_sources
from .resources import ResourceRequirements
from .scheduling import Affinity, Taint, Toleration

NODE_TTL = "node.alpha.kubernetes.io/ttl"


MANAGED_ATTACH_DETACH = "volumes.kubernetes.io/controller-managed-attach-detach"


KEEP_TERMINATED_POD_VOLUMES = "volumes.kubernetes.io/keep-terminated-pod-volumes"


POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


JOB_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


JOB_INDEX_FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"


JOB_INDEX_IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"


RESIZE_PENDING = "PodResizePending"
"""The condition of a pod whose kubelet puts off or refuses to resize it."""


class PodAnnotations(APIStruct, frozen=True):
    """The only annotations of a pod that controllers read.

    A projection: annotations are often the largest part of a pod's metadata,
    and a cache of 100,000 pods holds them 100,000 times.
    """

    deletion_cost: str | None = field(default=None, name=POD_DELETION_COST)
    completion_index: str | None = field(default=None, name=JOB_COMPLETION_INDEX)
    index_failures: str | None = field(default=None, name=JOB_INDEX_FAILURE_COUNT)
    index_ignored_failures: str | None = field(
        default=None, name=JOB_INDEX_IGNORED_FAILURE_COUNT
    )


class PodMeta(PartialMetadata, frozen=True):
    """The metadata of a pod that controllers read; pods are never written by PUT."""

    generation: int = 0
    deletion_grace_period_seconds: int | None = None
    annotations: PodAnnotations | None = None


class ContainerPort(APIStruct, frozen=True):
    """A port of a container; services refer to it by its name."""

    name: str = ""
    container_port: int = 0
    protocol: str = ""


class SELinuxOptions(APIStruct, frozen=True):
    """The parts of an SELinux label that are set."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class SecurityContext(APIStruct, frozen=True):
    """The fields of a container's security context that controllers read."""

    se_linux_options: SELinuxOptions | None = field(default=None, name="seLinuxOptions")


class PodSecurityContext(APIStruct, frozen=True):
    """The fields of a pod's security context that controllers read."""

    se_linux_options: SELinuxOptions | None = field(default=None, name="seLinuxOptions")
    se_linux_change_policy: str | None = field(default=None, name="seLinuxChangePolicy")


class VolumeMount(APIStruct, frozen=True):
    """The volume of a pod that a container mounts."""

    name: str = ""


class Container(APIStruct, frozen=True):
    """The fields of a container that controllers read.

    A cache keeps only the ports that have names, and the mounts of the volumes that it
    keeps. It keeps all mounts of a pod whose containers have different SELinux labels.
    """

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] | None = None
    security_context: SecurityContext | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None


class InitContainer(APIStruct, frozen=True):
    """The fields of an init container that controllers read.

    With the restart policy Always it is a sidecar.
    """

    name: str = ""
    restart_policy: str | None = None
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] | None = None
    security_context: SecurityContext | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None


class EphemeralContainer(APIStruct, frozen=True):
    """The fields of a container for debugging that controllers read."""

    security_context: SecurityContext | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None


class PersistentVolumeClaimVolumeSource(APIStruct, frozen=True):
    """A claim that is a volume of a pod."""

    claim_name: str = ""


class ClaimTemplate(APIStruct, frozen=True):
    """A template of a claim; its spec is kept as bytes, complete and not decoded."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Raw = Raw(b"{}")

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        force_setattr(self, "spec", self.spec.copy())


class EphemeralVolumeSource(APIStruct, frozen=True):
    """A claim that is made for a pod."""

    volume_claim_template: ClaimTemplate | None = None


class PodVolume(APIStruct, frozen=True):
    """The fields of a pod's volume that controllers read.

    A cache keeps only the volumes that have one of these sources.
    """

    name: str = ""
    aws_elastic_block_store: volume_sources.AWSElasticBlockStoreSource | None = None
    azure_disk: volume_sources.AzureDiskSource | None = None
    azure_file: volume_sources.AzureFileSource | None = None
    cinder: volume_sources.CinderSource | None = None
    fc: volume_sources.FCSource | None = None
    gce_persistent_disk: volume_sources.GCEPersistentDiskSource | None = None
    iscsi: volume_sources.ISCSISource | None = None
    portworx_volume: volume_sources.PortworxVolumeSource | None = None
    vsphere_volume: volume_sources.VsphereVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None


class PodResourceClaim(APIStruct, frozen=True):
    """A claim of a pod to devices: an existing claim, or a template for one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(APIStruct, frozen=True):
    """The group of pods with which a pod is scheduled."""

    pod_group_name: str = ""


class PodSpec(APIStruct, frozen=True):
    """The fields of a pod's spec that controllers read.

    Of pods that have a node, a cache keeps only an affinity to pods of other
    namespaces.
    """

    affinity: Affinity | None = None
    node_name: str = ""
    tolerations: tuple[Toleration, ...] | None = None
    hostname: str = ""
    subdomain: str = ""
    active_deadline_seconds: int | None = None
    priority_class_name: str = ""
    overhead: dict[str, str] | None = None
    resources: ResourceRequirements | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[InitContainer, ...] | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] | None = None
    security_context: PodSecurityContext | None = None
    volumes: tuple[PodVolume, ...] | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    scheduling_group: PodSchedulingGroup | None = None


class PodCondition(APIStruct, frozen=True):
    """One condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class ContainerStateTerminated(APIStruct, frozen=True):
    """The end of a container: its exit code, reason and times."""

    exit_code: int = 0
    finished_at: str | None = None


class ContainerStateWaiting(APIStruct, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""


class ContainerState(APIStruct, frozen=True):
    """The state of a container: it runs unless it waits or has ended."""

    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(APIStruct, frozen=True):
    """The fields of a container's status that controllers read."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources: dict[str, str] | None = None
    resources: ResourceRequirements | None = None


class PodIP(APIStruct, frozen=True):
    """One address of a pod."""

    ip: str = ""


class ExtendedResourceClaimStatus(APIStruct, frozen=True):
    """The claim that was made for the extended resources of a pod."""

    resource_claim_name: str = ""


class PodResourceClaimStatus(APIStruct, frozen=True):
    """The claim that was made by a template; `None` if none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(APIStruct, frozen=True):
    """The fields of a pod's status that controllers read."""

    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    qos_class: str = ""
    allocated_resources: dict[str, str] | None = None
    resources: ResourceRequirements | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] | None = None
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] | None = field(default=None, name="podIPs")
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    ephemeral_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Projection, frozen=True):
    """A projection of a pod: it takes 0.5 kB of memory instead of 4."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ObjectReference(APIStruct, frozen=True):
    """An object, or one field of it."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class LocalObjectReference(APIStruct, frozen=True):
    """An object in the same namespace; the field that refers to it implies its kind."""

    name: str = ""


class EventSource(APIStruct, frozen=True):
    """The component that reports an event."""

    component: str = ""
    host: str = ""


class EventSeries(APIStruct, frozen=True):
    """The number of repetitions of an event, and the time of the last one."""

    count: int = 0
    last_observed_time: str | None = None


class Event(CompleteObject, frozen=True):
    """A core/v1 event."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
    type: str = ""
    event_time: str | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


class NamespaceSpec(APIStruct, frozen=True):
    """All of a namespace's spec."""

    finalizers: tuple[str, ...] | None = None


class NamespaceCondition(APIStruct, frozen=True):
    """One condition of a namespace."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class NamespaceStatus(APIStruct, frozen=True):
    """All of a namespace's status."""

    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] | None = None


class Namespace(CompleteObject, frozen=True):
    """A namespace."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class NodeAnnotations(APIStruct, frozen=True):
    """The only annotations of a node that controllers read."""

    ttl: str | None = field(default=None, name=NODE_TTL)
    managed_attach_detach: str | None = field(default=None, name=MANAGED_ATTACH_DETACH)
    keep_terminated_pod_volumes: str | None = field(
        default=None, name=KEEP_TERMINATED_POD_VOLUMES
    )


class NodeMeta(PartialMetadata, frozen=True):
    """The metadata of a node that controllers read; nodes are never written by PUT."""

    annotations: NodeAnnotations | None = None


class NodeSpec(APIStruct, frozen=True):
    """The fields of a node's spec that controllers read."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False
    pod_cidr: str = field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] | None = field(default=None, name="podCIDRs")


class NodeCondition(APIStruct, frozen=True):
    """One condition of a node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_heartbeat_time: str | None = None


class NodeAllocatable(APIStruct, frozen=True):
    """The resources of a node that controllers read, as quantities.

    An API server writes texts. A number is accepted, too: otherwise one node with a
    number would keep the cache of all nodes from being filled.
    """

    cpu: str | float = ""


class AttachedVolume(APIStruct, frozen=True):
    """A volume that is attached to a node, by its unique name."""

    name: str = ""
    device_path: str = ""


class NodeStatus(APIStruct, frozen=True):
    """The fields of a node's status that controllers read."""

    allocatable: NodeAllocatable | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    volumes_in_use: tuple[str, ...] | None = None
    volumes_attached: tuple[AttachedVolume, ...] | None = None


class Node(Projection, frozen=True):
    """A projection of a node."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ServiceAccount(CompleteObject, frozen=True):
    """A service account: the identity of pods."""

    secrets: tuple[ObjectReference, ...] | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] | None = None
    automount_service_account_token: bool | None = None


class ConfigMap(CompleteObject, frozen=True):
    """A config map."""

    immutable: bool | None = None
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class PodTemplateSpec(APIStruct, frozen=True):
    """A pod template; its spec is kept as bytes, complete and not decoded."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Raw = Raw(b"{}")

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from.

        A view would keep the whole message in memory, up to a page of 500 objects.
        """
        force_setattr(self, "spec", self.spec.copy())


class ReplicationControllerSpec(APIStruct, frozen=True):
    """All of a replication controller's spec; its selector has only labels."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: dict[str, str] | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicationControllerCondition(APIStruct, frozen=True):
    """One condition of a replication controller."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ReplicationControllerStatus(APIStruct, frozen=True):
    """All of a replication controller's status."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[ReplicationControllerCondition, ...] | None = None


class ReplicationController(CompleteObject, frozen=True):
    """A replication controller, the predecessor of replica sets."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


PODS: Resource[Pod] = Resource("", "v1", "pods", "Pod", Pod)


EVENTS: Resource[Event] = Resource("", "v1", "events", "Event", Event)


NODES: Resource[Node] = Resource("", "v1", "nodes", "Node", Node, namespaced=False)


NAMESPACES: Resource[Namespace] = Resource(
    "", "v1", "namespaces", "Namespace", Namespace, namespaced=False
)


SERVICE_ACCOUNTS: Resource[ServiceAccount] = Resource(
    "", "v1", "serviceaccounts", "ServiceAccount", ServiceAccount
)


CONFIG_MAPS: Resource[ConfigMap] = Resource(
    "", "v1", "configmaps", "ConfigMap", ConfigMap
)


REPLICATION_CONTROLLERS: Resource[ReplicationController] = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController", ReplicationController
)
