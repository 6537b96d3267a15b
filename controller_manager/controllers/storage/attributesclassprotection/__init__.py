"""volumeattributesclass-protection-controller: keeps classes of attributes in use."""

from typing import Final

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.storage.v1 import VOLUME_ATTRIBUTES_CLASSES
from controller_manager.informers.reads import Reads
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

VOLUME_ATTRIBUTES_CLASS: Final = Gate("VolumeAttributesClass", locked=True)
"""Volumes have classes of attributes, and users may change the class."""

CONTROLLER = Descriptor(
    name="volumeattributesclass-protection-controller",
    load=".controller:AttributesClassProtectionReconciler",
    requires=(VOLUME_ATTRIBUTES_CLASSES, CLAIMS, PERSISTENT_VOLUMES),
    requires_gates=(VOLUME_ATTRIBUTES_CLASS,),
    reads=(Reads(VOLUME_ATTRIBUTES_CLASSES), Reads(CLAIMS), Reads(PERSISTENT_VOLUMES)),
    permissions=(
        allow(CLAIMS, "get", "list", "watch"),
        allow(PERSISTENT_VOLUMES, "get", "list", "watch"),
        allow(VOLUME_ATTRIBUTES_CLASSES, "get", "list", "update", "watch"),
        *RECORD_EVENTS,
    ),
)
