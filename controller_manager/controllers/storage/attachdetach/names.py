"""Names of volumes and of their attachments (pure functions)."""

import hashlib
import re
from typing import Final

from controller_manager.control.disk_names import FC, ISCSI

_CSI: Final = "kubernetes.io/csi"

_OURS: Final = re.compile(r"csi-[0-9a-f]{64}")


def csi_name(driver: str, handle: str) -> str:
    """Return the unique name of a volume of a CSI driver.

    The status of nodes has this name. Upstream: GetUniqueVolumeName.
    """
    return f"{_CSI}/{driver}^{handle}"


def plugin_name(unique_name: str) -> str:
    """Return the name of a volume's plugin, with the driver of a CSI volume.

    This name is a label of metrics. Upstream: GetFullQualifiedPluginNameForVolume.
    """
    plugin, _, rest = unique_name.removeprefix("kubernetes.io/").partition("/")
    driver, found, _ = rest.partition("^")
    name = f"kubernetes.io/{plugin}"
    return f"{name}:{driver}" if found and name == _CSI else name


def is_known(unique_name: str) -> bool:
    """Tell whether this controller attaches volumes of the plugin in a unique name."""
    return unique_name.startswith((f"{_CSI}/", f"{ISCSI}/", f"{FC}/"))


def attachment_name(unique_name: str, node: str) -> str:
    """Return the name of the attachment of a volume to a node.

    The name is empty for a volume that no CSI driver attaches. Upstream:
    getAttachmentName.
    """
    driver, found, handle = unique_name.removeprefix(f"{_CSI}/").partition("^")
    if not found or not unique_name.startswith(f"{_CSI}/"):
        return ""
    text = f"{handle}{driver}{node}"
    return f"csi-{hashlib.sha256(text.encode()).hexdigest()}"


def is_attachment_name(name: str) -> bool:
    """Tell whether a name has the form of the names that `attachment_name` returns."""
    return _OURS.fullmatch(name) is not None
