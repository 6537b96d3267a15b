"""Unique names of the disks that kubelets mount without a driver (GetVolumeName)."""

from typing import Final

from controller_manager.api.core.volume_sources import FCSource, ISCSISource

ISCSI: Final = "kubernetes.io/iscsi"
FC: Final = "kubernetes.io/fc"


def disk_name(iscsi: ISCSISource | None, fc: FCSource | None) -> str:
    """Return the unique name of a disk behind iSCSI or Fibre Channel.

    The name is empty without a source, and for a source that identifies no disk.
    """
    if iscsi is not None:
        return f"{ISCSI}/{iscsi.target_portal}:{iscsi.iqn}:{iscsi.lun}"
    if fc is None:
        return ""
    if fc.target_wwns and fc.lun is not None:
        return f"{FC}/[{' '.join(fc.target_wwns)}]:{fc.lun}"
    return f"{FC}/[{' '.join(fc.wwids)}]" if fc.wwids else ""
