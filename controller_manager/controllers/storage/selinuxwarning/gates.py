"""The feature gates of SELinux labels of volumes."""

from typing import Final

from controller_manager.options.gates import Gate

CHANGE_POLICY: Final = Gate("SELinuxChangePolicy", locked=True)
"""Pods say how the label of their volumes is changed."""

READ_WRITE_ONCE_POD: Final = Gate("SELinuxMountReadWriteOncePod", locked=True)
"""Volumes of one pod are mounted with its label."""
