"""All feature gates that kube-controller-manager 1.36 knows, with their history.

Upstream: pkg/features/kube_features.go, apiserver pkg/features, client-go features and
component-base of 1.36. A gate of upstream that this build does not heed is taken all
the same, because upstream's arguments may name it.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

from msgspec import Struct

Stage = Literal["PREALPHA", "ALPHA", "BETA", "GA", "DEPRECATED"]

_STAGES: Final[Mapping[str, Stage]] = {
    "a": "ALPHA",
    "b": "BETA",
    "g": "GA",
    "d": "DEPRECATED",
}


class GateSpec(Struct, frozen=True):
    """The stage and the default of a gate in one minor version.

    A `locked` gate can only have its default.
    """

    stage: Stage
    default: bool
    locked: bool = False


_BEFORE_ALPHA: Final = GateSpec("PREALPHA", default=False)

# A word for each change: the stage (alpha, beta, GA, deprecated), the default (+ or -),
# the minor version since which it is so, and ! if it is locked.
_HISTORY: Final = """
AggregatedDiscoveryRemoveBetaType g-0 d+33 d+35!
AllowDNSOnlyNodeCSR g+0 d-31
AllowInsecureKubeletCertificateSigningRequests g+0 d-31
AllowOverwriteTerminationGracePeriodSeconds g+0 d-32 d-35!
AllowParsingUserUIDFromCertAuth b+33
AllowUnsafeMalformedObjectDeletion a-32
AnonymousAuthConfigurableEndpoints a-31 b+32 g+34!
AnyVolumeDataSource a-18 b+24 g+33!
APIResponseCompression a-8 b+16
APIServerIdentity a-20 b+26
APIServerTracing a-22 b+27 g+34!
APIServingWithRoutine a-30
AtomicFIFO b+36
AuthorizeNodeWithSelectors a-31 b+32 g+34!
AuthorizePodWebsocketUpgradeCreatePermission b+35
AuthorizeWithSelectors a-31 b+32 g+34!
BtreeWatchCache b+32 g+33!
CBORServingAndStorage a-32
ChangeContainerStatusOnKubeletRestart g+0 d-35
ClearingNominatedNodeNameAfterBinding a-34 b+35
ClientsAllowCARotation b+36
ClientsAllowCBOR a-32
ClientsAllowTLSCacheGC b+36
ClientsPreferCBOR a-32
CloudControllerManagerWatchBasedRoutesReconciliation a-35
CloudControllerManagerWebhook a-27
ClusterTrustBundle a-27 b-33
ClusterTrustBundleProjection a-29 b-33
ComponentFlagz a-32 b+36
ComponentStatusz a-32 b+36
ConcurrentWatchObjectDecode b-31
ConsistentListFromCache a-28 b+31 g+34!
ConstrainedImpersonation a-35 b+36
ContainerCheckpoint a-25 b+30
ContainerRestartRules a-34 b+35
ContainerStopSignals a-33
ContextualLogging a-24 b+30
ControllerManagerReleaseLeaderElectionLockOnExit a-36
CoordinatedLeaderElection a-31 b-33
CPUManagerPolicyAlphaOptions a-23
CPUManagerPolicyBetaOptions b+23
CPUManagerPolicyOptions a-22 b+23 g+33!
CRDObservedGenerationTracking b-35 b+36
CRDValidationRatcheting a-28 b+30 g+33!
CRIListStreaming a-36
CrossNamespaceVolumeDataSource a-26
CSIServiceAccountTokenSecrets b+35 g+36!
CSIVolumeHealth a-21
CustomCPUCFSQuotaPeriod a-12 g+36
CustomResourceFieldSelectors a-30 b+31 g+32!
DeclarativeValidation b+33 g+36!
DeclarativeValidationBeta b+36
DeclarativeValidationTakeover b-33 d-36
DeploymentReplicaSetTerminatingReplicas a-33 b+35
DetectCacheInconsistency b+34
DisableAllocatorDualWrite a-31 b-33 g+34 g+35!
DisableCPUQuotaWithExclusiveCPUs b+33 d+36
DisableNodeKubeProxyVersion a-29 d-31 d+33 d+36!
DRAAdminAccess a-32 b+34 g+36!
DRAConsumableCapacity a-34 b+36
DRADeviceBindingConditions a-34 b+36
DRADeviceTaintRules a-35 b-36
DRADeviceTaints a-33 b+36
DRAExtendedResource a-34 b+36
DRAListTypeAttributes a-36
DRANodeAllocatableResources a-36
DRAPartitionableDevices a-33 b+36
DRAPrioritizedList a-33 b+34 g+36
DRAResourceClaimDeviceStatus a-32 b+33
DRAResourceClaimGranularStatusAuthorization b+36
DRAResourcePoolStatus a-36
DRASchedulerFilterTimeout b+34
DRAWorkloadResourceClaims a-36
DynamicResourceAllocation a-26 b-32 g+34 g+35!
EnvFiles a-34 b+35
EventedPLEG a-26
ExecProbeTimeout g+20 g+35!
ExtendWebSocketsToKubelet b+36
ExternalServiceAccountTokenSigner a-32 b+34 g+36!
GangScheduling a-35
GenericWorkload a-35
GitRepoVolumeDriver g+0 d-33 d-36!
GracefulNodeShutdown a-20 b+21
GracefulNodeShutdownBasedOnPodPriority a-23 b+24
HostnameOverride a-34 b+35
HPAConfigurableTolerance a-33 b+35
HPAScaleToZero a-16
ImageMaximumGCAge a-29 b+30 g+35!
ImageVolume a-31 b-33 b+35 g+36!
ImageVolumeWithDigest a-35
InformerResourceVersion a-30 g+35
InOrderInformers b+33 g+36
InOrderInformersBatchProcess b+35
InPlacePodLevelResourcesVerticalScaling a-35 b+36
InPlacePodVerticalScaling a-27 b+33 g+35!
InPlacePodVerticalScalingAllocatedStatus a-32 d-33
InPlacePodVerticalScalingExclusiveCPUs a-32
InPlacePodVerticalScalingExclusiveMemory a-34
InPlacePodVerticalScalingInitContainers b+36
JobBackoffLimitPerIndex a-28 b+29 g+33!
JobManagedBy a-30 b+32 g+35!
JobPodReplacementPolicy a-28 b+29 g+34!
JobSuccessPolicy a-30 b+31 g+33!
KMSv1 g+0 d+28 d-29
KubeletCgroupDriverFromCRI a-28 b+31 g+34!
KubeletCrashLoopBackOffMax a-32 b+35
KubeletEnsureSecretPulledImages a-33 b+35
KubeletFineGrainedAuthz a-32 b+33 g+36!
KubeletInUserNamespace a-22
KubeletPodResourcesDynamicResources a-27 b+34 g+36!
KubeletPodResourcesGet a-27 b+34 g+36!
KubeletPodResourcesListUseActivePods g-0 d+34
KubeletPSI a-33 b+34 g+36!
KubeletRegistrationGetOnExistsOnly g+0 d-32
KubeletSeparateDiskGC a-29 b+31
KubeletServiceAccountTokenForCredentialProviders a-33 b+34
KubeletTracing a-25 b+27 g+34!
ListFromCacheSnapshot a-33 b+34
LocalStorageCapacityIsolationFSQuotaMonitoring a-15 b-31
LogarithmicScaleDown a-21 b+22 g+31!
LoggingAlphaOptions a-24
LoggingBetaOptions b+24
ManifestBasedAdmissionControlConfig a-36
MatchLabelKeysInPodAffinity a-29 b+31 g+33!
MatchLabelKeysInPodTopologySpread a-25 b+27
MatchLabelKeysInPodTopologySpreadSelectorMerge b+34
MaxUnavailableStatefulSet a-24 b-35
MemoryQoS a-22
MultiCIDRServiceAllocator a-27 b-31 g+33 g+34!
MutableCSINodeAllocatableCount a-33 b-34 b+35 g+36!
MutablePodResourcesForSuspendedJobs a-35 b+36
MutablePVNodeAffinity a-35
MutableSchedulingDirectivesForSuspendedJobs a-35 b+36
MutatingAdmissionPolicy a-32 b-34 g+36
NativeHistograms a-36
NFTablesProxyMode a-29 b+31 g+33!
NodeDeclaredFeatures a-35 b+36
NodeInclusionPolicyInPodTopologySpread a-25 b+26 g+33!
NodeLogQuery a-27 b-30 g+36!
NodeSwap a-22 b-28 b+30 g+34!
NominatedNodeNameForExpectation a-34 b+35
OpenAPIEnums a-23 b+24
OpportunisticBatching b+35
OrderedNamespaceDeletion b-30 b+33 g+34!
PersistentVolumeClaimUnusedSinceTime a-36
PLEGOnDemandRelist b+36
PodAndContainerStatsFromCRI a-23
PodCertificateRequest a-34 b-35
PodDeletionCost a-21 b+22
PodLevelResourceManagers a-36
PodLevelResources a-32 b+34
PodLifecycleSleepAction a-29 b+30 g+34!
PodLifecycleSleepActionAllowZero a-32 b+33 g+34!
PodLogsQuerySplitStreams a-32
PodObservedGenerationTracking a-33 b+34 g+35!
PodReadyToStartContainersCondition a-28 b+29
PodSchedulingReadiness a-26 b+27 g+30!
PodsAPI a-36
PodTopologyLabelsAdmission a-33 b+35
PortForwardWebsockets a-30 b+31
PreferSameTrafficDistribution a-33 b+34 g+35!
PreventStaticPodAPIReferences b+34
ProcMountType a-12 b-31 b+33 g+36!
QOSReserved a-11
RecoverVolumeExpansionFailure a-23 b+32 g+34!
RecursiveReadOnlyMounts a-30 b+31 g+33!
ReduceDefaultCrashLoopBackOffDecay a-33
RelaxedEnvironmentVariableValidation a-30 b+32 g+34!
RelaxedServiceNameValidation a-34 b+36
ReloadKubeletClientCAFile b+36
ReloadKubeletServerCertificateFile b+31
RemoteRequestHeaderUID a-32 b+33
ResourceHealthStatus a-31 b+36
ResourceHealthStatusMessage b+36
RestartAllContainersOnContainerExits a-35 b+36
RotateKubeletServerCertificate a-7 b+12
RuntimeClassInImageCriApi a-29
SchedulerAsyncAPICalls b-34
SchedulerAsyncPreemption a-32 b+33
SchedulerPopFromBackoffQ b+33
SELinuxChangePolicy a-32 b+33 g+36!
SELinuxMount a-30 b-33
SELinuxMountReadWriteOncePod a-25 b-27 b+28 g+36!
SeparateCacheWatchRPC b+28 d-33 d-36!
SeparateTaintEvictionController b+29 g+34!
ServiceAccountNodeAudienceRestriction b-32 b+33
ServiceAccountTokenJTI a-29 b+30 g+32!
ServiceAccountTokenNodeBinding a-29 b+31 g+33!
ServiceAccountTokenNodeBindingValidation a-29 b+30 g+32!
ServiceAccountTokenPodNodeInfo a-29 b+30 g+32!
ServiceCIDRStatusFieldWiping g-0 d+36
ServiceTrafficDistribution a-30 b+31 g+33!
ShardedListAndWatch a-36
SidecarContainers a-28 b+29 g+33!
SizeBasedListCostEstimate b+34
StaleControllerConsistencyDaemonSet b+36
StaleControllerConsistencyJob b+36
StaleControllerConsistencyReplicaSet b+36
StaleControllerConsistencyStatefulSet b+36
StatefulSetSemanticRevisionComparison b+0
StorageCapacityScoring a-33
StorageNamespaceIndex b+30 d+33
StorageVersionAPI a-20
StorageVersionHash a-14 b+15
StorageVersionMigrator a-30 b-35
StreamingCollectionEncodingToJSON b+33 g+34!
StreamingCollectionEncodingToProtobuf b+33 g+34!
StrictIPCIDRValidation a-33 b+36
StructuredAuthenticationConfiguration a-29 b+30 g+34!
StructuredAuthenticationConfigurationEgressSelector b+34
StructuredAuthenticationConfigurationJWKSMetrics b+35
SupplementalGroupsPolicy a-31 b+33 g+35!
SystemdWatchdog b+32 g+35!
TaintTolerationComparisonOperators a-35
TokenRequestServiceAccountUIDValidation b+34
TopologyAwareHints a-21 b-23 b+24 g+33!
TopologyAwareWorkloadScheduling a-36
TopologyManagerPolicyAlphaOptions a-26
TopologyManagerPolicyBetaOptions b-26 b+28
TopologyManagerPolicyOptions a-26 b+28 g+32!
TranslateStreamCloseWebsocketRequests a-29 b+30
UnauthenticatedHTTP2DOSMitigation b-25 b+29
UnknownVersionInteroperabilityProxy a-28 b+36
UnlockWhileProcessingFIFO b+36
UserNamespacesHostNetworkSupport a-35
UserNamespacesSupport a-25 b-30 b+33 g+36!
VolumeAttributesClass a-29 b-31 g+34 g+36!
VolumeLimitScaling a-35
WatchCacheInitializationPostStartHook b-31 b+36
WatchList a-27 b+32 b-33 b+34
WatchListClient b-30 b+35
WindowsCPUAndMemoryAffinity a-32
WindowsGracefulNodeShutdown a-32 b+34
WindowsHostNetwork a-26 d-33
WinDSR a-14 b+33 g+34!
WinOverlay a-14 b+20 g+34!
WorkloadAwarePreemption a-36
WorkloadWithJob a-36
"""

_NEEDED: Final = """
AuthorizeNodeWithSelectors AuthorizeWithSelectors
ClusterTrustBundleProjection ClusterTrustBundle
DRAAdminAccess DynamicResourceAllocation
DRAConsumableCapacity DynamicResourceAllocation
DRADeviceBindingConditions DynamicResourceAllocation DRAResourceClaimDeviceStatus
DRADeviceTaintRules DRADeviceTaints
DRADeviceTaints DynamicResourceAllocation
DRAExtendedResource DynamicResourceAllocation
DRAListTypeAttributes DynamicResourceAllocation
DRANodeAllocatableResources DynamicResourceAllocation
DRAPartitionableDevices DynamicResourceAllocation
DRAPrioritizedList DynamicResourceAllocation
DRAResourceClaimGranularStatusAuthorization DynamicResourceAllocation \
DRAResourceClaimDeviceStatus
DRAResourcePoolStatus DynamicResourceAllocation
DRASchedulerFilterTimeout DynamicResourceAllocation
DRAWorkloadResourceClaims DynamicResourceAllocation GenericWorkload
DisableAllocatorDualWrite MultiCIDRServiceAllocator
ExtendWebSocketsToKubelet NodeDeclaredFeatures
GangScheduling GenericWorkload
GracefulNodeShutdownBasedOnPodPriority GracefulNodeShutdown
ImageVolumeWithDigest ImageVolume
InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling PodLevelResources \
NodeDeclaredFeatures
InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers InPlacePodVerticalScaling NodeDeclaredFeatures
MatchLabelKeysInPodTopologySpreadSelectorMerge MatchLabelKeysInPodTopologySpread
PodLevelResourceManagers PodLevelResources
ProcMountType UserNamespacesSupport
ResourceHealthStatus DynamicResourceAllocation
ResourceHealthStatusMessage ResourceHealthStatus
RestartAllContainersOnContainerExits ContainerRestartRules NodeDeclaredFeatures
ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
StaleControllerConsistencyDaemonSet AtomicFIFO
StaleControllerConsistencyJob AtomicFIFO
StaleControllerConsistencyReplicaSet AtomicFIFO
StaleControllerConsistencyStatefulSet AtomicFIFO
TopologyAwareWorkloadScheduling GenericWorkload
UserNamespacesHostNetworkSupport UserNamespacesSupport NodeDeclaredFeatures
WindowsGracefulNodeShutdown GracefulNodeShutdown
WorkloadAwarePreemption GangScheduling
WorkloadWithJob GenericWorkload
"""

DEPENDENCIES: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(needed)
    for name, *needed in map(str.split, _NEEDED.strip().splitlines())
}
"""The gates without which a gate cannot be enabled."""


@cache
def known_gates(minor: int) -> Mapping[str, GateSpec]:
    """Return upstream's gates by name as they are in Kubernetes 1.`minor`.

    A gate that is younger has the stage PREALPHA.
    """
    lines = (line.split() for line in _HISTORY.splitlines() if line)
    return {name: _spec_at(changes, minor) for name, *changes in lines}


def _spec_at(changes: list[str], minor: int) -> GateSpec:
    spec = _BEFORE_ALPHA
    for change in changes:
        if int(change[2:].rstrip("!")) <= minor:
            spec = GateSpec(
                _STAGES[change[0]],
                default=change[1] == "+",
                locked=change.endswith("!"),
            )
    return spec
