"""scheduling.k8s.io/v1alpha2: groups of pods."""

from msgspec import Raw

from controller_manager.api.meta import CompleteObject
from controller_manager.api.resource import Resource


class PodGroup(CompleteObject, frozen=True):
    """Pods that are scheduled together; pods name their group.

    Controllers read only the metadata. They carry the rest as bytes.
    """

    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")


POD_GROUPS: Resource[PodGroup] = Resource(
    "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", PodGroup
)
