"""The attachable volumes of a pod (CreateVolumeSpec of upstream), and their names."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from controller_manager.api.core.claims import BOUND, CLAIMS
from controller_manager.api.core.v1 import PODS, Pod, PodVolume
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import is_controlled_by
from controller_manager.api.storage.v1 import CSI_DRIVERS
from controller_manager.control.csi_migration import (
    READ_ONLY_MANY,
    READ_WRITE_MANY,
    CSIVolume,
    UntranslatableError,
    csi_volume,
    inline_csi_volume,
)
from controller_manager.control.pod_indexes import PODS_BY_CLAIM, claim_name
from controller_manager.control.volumes import FC, ISCSI, disk_name
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext

_CSI: Final = "kubernetes.io/csi"

_OURS: Final = re.compile(r"csi-[0-9a-f]{64}")


def csi_name(driver: str, handle: str) -> str:
    """Return the name of a CSI volume in the status of nodes (GetUniqueVolumeName)."""
    return f"{_CSI}/{driver}^{handle}"


def plugin_name(unique_name: str) -> str:
    """Return the name of a volume's plugin for metrics, with a CSI volume's driver.

    It is ``N/A`` without a unique name (GetFullQualifiedPluginNameForVolume).
    """
    if not unique_name:
        return "N/A"
    plugin, _, rest = unique_name.removeprefix("kubernetes.io/").partition("/")
    driver, found, _ = rest.partition("^")
    name = f"kubernetes.io/{plugin}"
    return f"{name}:{driver}" if found and name == _CSI else name


def is_known(unique_name: str) -> bool:
    """Tell whether this controller attaches volumes of the plugin in a unique name."""
    return unique_name.startswith((f"{_CSI}/", f"{ISCSI}/", f"{FC}/"))


def attachment_name(unique_name: str, node: str) -> str:
    """Return the name of a volume's attachment to a node (getAttachmentName).

    It is empty for a volume that no CSI driver attaches.
    """
    driver, found, handle = unique_name.removeprefix(f"{_CSI}/").partition("^")
    if not found or not unique_name.startswith(f"{_CSI}/"):
        return ""
    text = f"{handle}{driver}{node}"
    return f"csi-{hashlib.sha256(text.encode()).hexdigest()}"


def is_attachment_name(name: str) -> bool:
    """Tell whether a name has the form of the names that `attachment_name` returns."""
    return _OURS.fullmatch(name) is not None


class Volume(Struct, frozen=True):
    """A volume that can be attached.

    `name` appears in events. `persistent_volume` is empty for a volume that a pod
    defines itself. `csi` is `None` for a volume that no driver attaches: the node's
    status lists such a volume at once. An `exclusive` volume is attached to one node
    at a time.
    """

    unique_name: str
    name: str
    exclusive: bool
    persistent_volume: str = ""
    csi: CSIVolume | None = None


class Unresolved(Struct, frozen=True):
    """A volume of a pod that the caches do not show yet, with the key of its claim.

    A volume that may be this one is not detached.
    """

    claim: str
    persistent_volume: str = ""


Found = Volume | Unresolved


def is_exclusive(modes: Iterable[str]) -> bool:
    """Tell whether a volume may have one node only (IsMultiAttachAllowed).

    Without access modes it may have several: its driver refuses if it has to.
    """
    given = tuple(modes)
    return bool(given) and READ_WRITE_MANY not in given and READ_ONLY_MANY not in given


def volume_of(volume: PersistentVolume) -> Volume | None:
    """Return the attachable volume of a persistent volume, `None` if there is none."""
    spec, name = volume.spec, volume.metadata.name
    exclusive = is_exclusive(spec.access_modes or ())
    if spec.iscsi is not None or spec.fc is not None:
        unique = disk_name(spec.iscsi, spec.fc)
        return Volume(unique, name, exclusive, name) if unique else None
    try:
        csi = csi_volume(volume)
    except UntranslatableError:
        return None
    if csi is None:
        return None
    unique = csi_name(csi.driver, csi.handle)
    return Volume(unique, name, is_exclusive(csi.access_modes), name, csi)


def inline_volume_of(pod: Pod, volume: PodVolume) -> Volume | None:
    """Return a volume that a pod defines itself, `None` if it is not attachable."""
    if unique := disk_name(volume.iscsi, volume.fc):
        return Volume(unique, volume.name, exclusive=False)
    try:
        csi = inline_csi_volume(volume, pod.metadata.namespace)
    except UntranslatableError:
        return None
    if csi is None:
        return None
    unique = csi_name(csi.driver, csi.handle)
    return Volume(unique, csi.name, is_exclusive(csi.access_modes), csi=csi)


def _unique_name(volume: PersistentVolume) -> Iterable[str]:
    found = volume_of(volume)
    return (found.unique_name,) if found is not None else ()


BY_UNIQUE_NAME: Final = Index(
    "attachable",
    _unique_name,
    lambda old, new: (
        old.raw_spec == new.raw_spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
    ),
)
"""Persistent volumes by the unique name of the volume."""


class Volumes:
    """Finds the volumes of pods in the caches."""

    def __init__(self, context: ControllerContext) -> None:
        self._claims = context.lister(CLAIMS)
        self._drivers = context.lister(CSI_DRIVERS)
        self._pods = context.lister(PODS, PODS_BY_CLAIM)
        self.persistent = context.lister(PERSISTENT_VOLUMES, BY_UNIQUE_NAME)

    def of(self, pod: Pod) -> Iterator[Found]:
        """Yield the attachable volumes of a pod, and those that may be attachable."""
        for each in pod.spec.volumes or ():
            found = self._find(pod, each)
            if isinstance(found, Volume) and not self._needs_attachment(found):
                continue
            if found is not None:
                yield found

    def pods_of_claim(self, claim: str) -> Iterable[Pod]:
        """Return the pods that use the claim with this key."""
        return self._pods.by_index(PODS_BY_CLAIM, claim)

    def _find(self, pod: Pod, volume: PodVolume) -> Found | None:
        name = claim_name(pod, volume)
        if not name:
            return inline_volume_of(pod, volume)
        key = f"{pod.metadata.namespace}/{name}"
        claim = self._claims.by_key(key)
        if claim is None:
            return Unresolved(key)
        if volume.ephemeral is not None and not is_controlled_by(claim, pod):
            return None
        bound = claim.spec.volume_name
        if claim.status.phase != BOUND or not bound:
            return Unresolved(key, bound)
        found = self.persistent.by_key(bound)
        reference = found.spec.claim_ref if found is not None else None
        if found is None or reference is None or reference.uid != claim.metadata.uid:
            return Unresolved(key, bound)
        return volume_of(found)

    def _needs_attachment(self, volume: Volume) -> bool:
        """Tell whether the driver of a volume attaches; an unknown driver does."""
        if volume.csi is None:
            return True
        driver = self._drivers.by_key(volume.csi.driver)
        return driver is None or driver.spec.attach_required is not False
