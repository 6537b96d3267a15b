"""The flags of the persistent volume binder controller."""

from typing import Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag

_VOLUMES: Final = "PersistentVolumeBinderController.VolumeConfiguration"
_RECYCLER: Final = f"{_VOLUMES}.PersistentVolumeRecyclerConfiguration"
_NO_EFFECT: Final = " Volumes are not recycled, so it has no effect."


class VolumeBinderOptions(ControllerOptions):
    """The flags about provisioning, recycling and the sync period."""

    provisions: bool = option(
        Flag(
            "enable-dynamic-provisioning",
            "bool",
            "true",
            "Ask provisioners for volumes.",
            f"{_VOLUMES}.EnableDynamicProvisioning",
        )
    )
    provisions_host_path: bool = option(
        Flag(
            "enable-hostpath-provisioner",
            "bool",
            "false",
            "Provision volumes on the host. It has no effect: use an external "
            "provisioner.",
            f"{_VOLUMES}.EnableHostPathProvisioning",
        )
    )
    flex_volume_directory: str = option(
        Flag(
            "flex-volume-plugin-dir",
            "string",
            "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
            "The directory of flex volume plugins.",
            f"{_VOLUMES}.FlexVolumePluginDir",
        )
    )
    increment_nfs: int = option(
        Flag(
            "pv-recycler-increment-timeout-nfs",
            "int32",
            "30",
            "Seconds that each GiB adds to the recycling of an NFS volume."
            + _NO_EFFECT,
            f"{_RECYCLER}.IncrementTimeoutNFS",
        )
    )
    minimum_host_path: int = option(
        Flag(
            "pv-recycler-minimum-timeout-hostpath",
            "int32",
            "60",
            "Seconds that the recycling of a host path volume may take." + _NO_EFFECT,
            f"{_RECYCLER}.MinimumTimeoutHostPath",
        )
    )
    minimum_nfs: int = option(
        Flag(
            "pv-recycler-minimum-timeout-nfs",
            "int32",
            "300",
            "Seconds that the recycling of an NFS volume may take." + _NO_EFFECT,
            f"{_RECYCLER}.MinimumTimeoutNFS",
        )
    )
    template_host_path: str = option(
        Flag(
            "pv-recycler-pod-template-filepath-hostpath",
            "string",
            None,
            "The pod template for recycling host path volumes." + _NO_EFFECT,
            f"{_RECYCLER}.PodTemplateFilePathHostPath",
        )
    )
    template_nfs: str = option(
        Flag(
            "pv-recycler-pod-template-filepath-nfs",
            "string",
            None,
            "The pod template for recycling NFS volumes." + _NO_EFFECT,
            f"{_RECYCLER}.PodTemplateFilePathNFS",
        )
    )
    increment_host_path: int = option(
        Flag(
            "pv-recycler-timeout-increment-hostpath",
            "int32",
            "30",
            "Seconds that each GiB adds to the recycling of a host path volume."
            + _NO_EFFECT,
            f"{_RECYCLER}.IncrementTimeoutHostPath",
        )
    )
    sync_period: float = option(
        Flag(
            "pvclaimbinder-sync-period",
            "duration",
            "15s",
            "Time between two syncs of a claim that waits, or of a volume that cannot "
            "be reclaimed.",
            "PersistentVolumeBinderController.PVClaimBinderSyncPeriod",
        )
    )
