"""Claims to devices: the device classes and the pods that belong to claims.

Upstream: addExtendedResourceQuota and getVerifiedPodUsage of
pkg/quota/v1/evaluator/core/resource_claims.go.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.dynamicresources.v1 import DeviceClass, ResourceClaim
from controller_manager.control.quota.amounts import NOTHING, Amounts
from controller_manager.control.quota.evaluators import Evaluator
from controller_manager.control.quota.extended_claims import pod_of, stands_for
from controller_manager.informers.indexes import Index
from controller_manager.informers.lister import Lister
from controller_manager.informers.store import Store


def _uid_of_pod(claim: ResourceClaim) -> Iterable[str]:
    uid = pod_of(claim)[1]
    return (uid,) if uid else ()


_BY_POD: Final = Index(
    "extendedResourceClaimPod",
    _uid_of_pod,
    lambda old, new: pod_of(old) == pod_of(new),
)
"""Claims for the extended resources of pods, by the uid of the pod."""


class Devices:
    """The extended resources of device classes, and the pods that claims are for."""

    def __init__(self, pods: Lister[Pod], evaluator: Evaluator) -> None:
        """Take the pods and their evaluator; no device class is known yet."""
        self.extended_resources: dict[str, str] = {}
        """The extended resource that each device class names, "" for none."""
        self._pods = pods
        self._evaluator = evaluator
        self._claims: Store[ResourceClaim] | None = None

    def use_claims(self, claims: Store[ResourceClaim]) -> None:
        """Take the cache of claims, once they are watched."""
        claims.add_index(_BY_POD)
        self._claims = claims

    def class_seen(self, device_class: DeviceClass) -> None:
        """Note a new or changed device class."""
        resource = device_class.spec.extended_resource_name or ""
        self.extended_resources[device_class.metadata.name] = resource

    def class_gone(self, device_class: DeviceClass) -> None:
        """Forget a device class."""
        self.extended_resources.pop(device_class.metadata.name, None)

    def charged_to_pod(self, claim: ResourceClaim, now: datetime) -> Amounts:
        """Return the usage of the pod for which a claim was made.

        A pod has one such claim; if there are several, only the first has this pod.
        """
        name, uid = pod_of(claim)
        pod = self._pods.get(claim.metadata.namespace, name) if name else None
        if pod is None or pod.metadata.uid != uid:
            return NOTHING
        claims = self._claims.by_index(_BY_POD, uid) if self._claims is not None else ()
        if not stands_for(claim, pod, claims):
            return NOTHING
        return self._evaluator.usage(pod, now)
