"""The flags of the persistent volume binder controller."""

from typing import Any, Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import FlagType

_VOLUMES: Final = "PersistentVolumeBinderController.VolumeConfiguration"
_RECYCLER: Final = f"{_VOLUMES}.PersistentVolumeRecyclerConfiguration"


def _recycler_option(
    name: str, kind: FlagType, default: str | None, text: str, field: str
) -> Any:  # noqa: ANN401 - an attribute of the flag's type
    text = f"{text} Volumes are not recycled, so it has no effect."
    return option(name, kind, default, text, f"{_RECYCLER}.{field}")


class VolumeBinderOptions(ControllerOptions):
    """The flags about provisioning, recycling and the sync period."""

    provisions: bool = option(
        "enable-dynamic-provisioning",
        "bool",
        "true",
        "Ask provisioners for volumes.",
        f"{_VOLUMES}.EnableDynamicProvisioning",
    )
    provisions_host_path: bool = option(
        "enable-hostpath-provisioner",
        "bool",
        "false",
        "Provision volumes on the host. It has no effect: use an external provisioner.",
        f"{_VOLUMES}.EnableHostPathProvisioning",
    )
    flex_volume_directory: str = option(
        "flex-volume-plugin-dir",
        "string",
        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "The directory of flex volume plugins.",
        f"{_VOLUMES}.FlexVolumePluginDir",
    )
    increment_nfs: int = _recycler_option(
        "pv-recycler-increment-timeout-nfs",
        "int32",
        "30",
        "Seconds that each GiB adds to the recycling of an NFS volume.",
        "IncrementTimeoutNFS",
    )
    minimum_host_path: int = _recycler_option(
        "pv-recycler-minimum-timeout-hostpath",
        "int32",
        "60",
        "Seconds that the recycling of a host path volume may take.",
        "MinimumTimeoutHostPath",
    )
    minimum_nfs: int = _recycler_option(
        "pv-recycler-minimum-timeout-nfs",
        "int32",
        "300",
        "Seconds that the recycling of an NFS volume may take.",
        "MinimumTimeoutNFS",
    )
    template_host_path: str = _recycler_option(
        "pv-recycler-pod-template-filepath-hostpath",
        "string",
        None,
        "The pod template for recycling host path volumes.",
        "PodTemplateFilePathHostPath",
    )
    template_nfs: str = _recycler_option(
        "pv-recycler-pod-template-filepath-nfs",
        "string",
        None,
        "The pod template for recycling NFS volumes.",
        "PodTemplateFilePathNFS",
    )
    increment_host_path: int = _recycler_option(
        "pv-recycler-timeout-increment-hostpath",
        "int32",
        "30",
        "Seconds that each GiB adds to the recycling of a host path volume.",
        "IncrementTimeoutHostPath",
    )
    sync_period: float = option(
        "pvclaimbinder-sync-period",
        "duration",
        "15s",
        "Time between two syncs of a claim that waits, or of a volume that cannot "
        "be reclaimed.",
        "PersistentVolumeBinderController.PVClaimBinderSyncPeriod",
    )
