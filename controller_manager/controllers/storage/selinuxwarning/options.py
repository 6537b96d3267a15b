"""The feature gates of SELinux labels of volumes."""

from typing import Final

from controller_manager.options.gates import Gate

CHANGE_POLICY: Final = Gate("SELinuxChangePolicy", locked=True)
"""Pods choose how the label of their volumes is changed."""

READ_WRITE_ONCE_POD: Final = Gate("SELinuxMountReadWriteOncePod", locked=True)
"""Volumes that only one pod may use are mounted with the label of the pod."""
