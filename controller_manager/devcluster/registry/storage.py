"""The kinds of storage.k8s.io: classes of volumes, drivers (CSI), and attachments.

Upstream: pkg/apis/storage/validation, plugin/pkg/admission/storage/storageclass.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import IMMUTABLE

from .kinds import kind_of, name_of

_MOST_PARAMETERS: Final = 512
_LONGEST_PARAMETERS: Final = 256 * 1024


def _provisioner(name: str, field: str) -> list[statuses.Cause]:
    """Check the name of a provisioner, or of the driver of attributes."""
    if not name:
        return [statuses.required(field)]
    return validate_qualified_name(name.lower(), field)


def _parameters(parameters: Mapping[str, str], field: str) -> list[statuses.Cause]:
    if len(parameters) > _MOST_PARAMETERS:
        return [statuses.too_long(field, _MOST_PARAMETERS)]
    size = sum(len(key) + len(value) for key, value in parameters.items())
    if size > _LONGEST_PARAMETERS:
        return [statuses.too_long(field, _LONGEST_PARAMETERS)]
    return []


# Storage classes

IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
"""The annotation of the class that claims without a class get."""

_IS_DEFAULT_BETA: Final = "storageclass.beta.kubernetes.io/is-default-class"
_CLASS_OF_CLAIM: Final = "volume.beta.kubernetes.io/storage-class"


def is_default(storage_class: JSON) -> bool:
    """Tell whether a class says that it is the default one."""
    annotations = storage_class["metadata"].get("annotations") or {}
    return "true" in (annotations.get(IS_DEFAULT), annotations.get(_IS_DEFAULT_BETA))


def _shown_name(storage_class: JSON) -> str:
    suffix = " (default)" if is_default(storage_class) else ""
    return f"{name_of(storage_class)}{suffix}"


def _expands(storage_class: JSON) -> str:
    return "true" if storage_class.get("allowVolumeExpansion") else "false"


STORAGE_CLASSES: Final = kind_of(
    "storage.k8s.io/v1/storageclasses",
    returns_deleted=True,
    defaults={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    rules="""
        provisioner: provisioner default empty
        parameters: parameters
        reclaimPolicy: enum Delete Retain
        volumeBindingMode: enum Immediate WaitForFirstConsumer
        """,
    update_rules="""
        parameters: kept "updates to parameters are forbidden."
        provisioner: kept "updates to provisioner are forbidden."
        reclaimPolicy, volumeBindingMode: immutable
        """,
    printer="""
        Name: shown_name
        Provisioner: .provisioner
        ReclaimPolicy: .reclaimPolicy or <unset>
        VolumeBindingMode: .volumeBindingMode or <unset>
        AllowVolumeExpansion: expands
        Age
        """,
)


def set_default_class(claim: JSON, storage: Storage) -> None:
    """Give the default class to a new claim that names no class, not even "".

    Of several default classes the newest counts; of those the first by name.
    """
    annotations = claim.get("metadata", {}).get("annotations") or {}
    spec = claim.get("spec") or {}
    if spec.get("storageClassName") is not None or _CLASS_OF_CLAIM in annotations:
        return
    found = [
        each.obj["metadata"]
        for each in storage.collection(STORAGE_CLASSES.resource)
        if is_default(each.obj)
    ]
    if found:
        newest = max(each["creationTimestamp"] for each in found)
        names = [each["name"] for each in found if each["creationTimestamp"] == newest]
        claim["spec"] = {**spec, "storageClassName": min(names)}


# Volume attributes classes

ATTRIBUTES_CLASSES: Final = kind_of(
    "storage.k8s.io/v1/volumeattributesclasses",
    returns_deleted=True,
    rules="""
        driverName: provisioner default empty
        parameters: parameters
        parameters: required "must contain at least one key/value pair"
        """,
    update_rules="""
        driverName: kept "updates to driverName are forbidden."
        parameters: kept "updates to parameters are forbidden."
        """,
    printer="Name; DriverName: .driverName; Age",
)

# Drivers

_MODES: Final = ("Persistent", "Ephemeral")
_MIN_TOKEN: Final = 600
_MAX_TOKEN: Final = 1 << 32


def _tokens(spec: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check the seconds of each token, but not of one for a known audience."""
    audiences = set()
    for number, token in enumerate(spec.get("tokenRequests") or ()):
        at, audience = f"{path}tokenRequests[{number}]", token.get("audience", "")
        if audience in audiences:
            yield statuses.duplicate(f"{at}.audience", statuses.shown(audience))
            continue
        audiences.add(audience)
        yield from _TOKEN.errors(token, path=f"{at}.")


_TOKEN: Final = table(f"""
    expirationSeconds: at-least {_MIN_TOKEN}
      "may not specify a duration less than 10 minutes"
    expirationSeconds: at-most {_MAX_TOKEN}
      "may not specify a duration larger than 2^32 seconds"
    """)


def _modes(modes: Sequence[str], field: str) -> Iterator[statuses.Cause]:
    for mode in modes:
        if mode not in _MODES:
            yield statuses.not_supported(field, statuses.shown(mode), _MODES)


def _audiences(driver: JSON) -> str:
    tokens = driver["spec"].get("tokenRequests")
    if tokens is None:
        return "<unset>"
    return ",".join(each.get("audience", "") for each in tokens)


DRIVERS: Final = kind_of(
    "storage.k8s.io/v1/csidrivers",
    returns_deleted=True,
    defaults={
        "spec": {
            "attachRequired": True,
            "podInfoOnMount": False,
            "requiresRepublish": False,
            "storageCapacity": False,
            "seLinuxMount": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "volumeLifecycleModes": ["Persistent"],
        }
    },
    rules="""
        spec:
          fsGroupPolicy: enum File None ReadWriteOnceWithFSType
          hook tokens
          volumeLifecycleModes: modes
          nodeAllocatableUpdatePeriodSeconds: at-least 10
            "must be greater than or equal to 10 seconds"
        """,
    # Upstream calls one field by another name.
    update_rules="""
        spec change:
          attachRequired: invalid at attachedRequired if changes attachRequired
            "field is immutable"
          volumeLifecycleModes: immutable
        """,
    printer="""
        Name
        AttachRequired boolean: .spec.attachRequired
        PodInfoOnMount boolean: .spec.podInfoOnMount
        StorageCapacity boolean: .spec.storageCapacity
        TokenRequests: audiences
        RequiresRepublish boolean: .spec.requiresRepublish
        Modes: join .spec.volumeLifecycleModes
        Age
        """,
)

# Drivers of nodes


def _keys(driver: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check the keys of the topology; the causes are about the driver."""
    keys, where = driver["topologyKeys"] or (), path[:-1]
    for number, key in enumerate(keys):
        if not key:
            yield statuses.required(where)
        if key in keys[:number]:
            yield statuses.duplicate(where, statuses.shown(key))
        yield from validate_qualified_name(key, where)


def _fixed(driver: JSON) -> JSON:
    return {name: each for name, each in driver.items() if name != "allocatable"}


def _drivers(spec: JSON, path: str, old: JSON) -> Iterator[statuses.Cause]:
    """Check that drivers are unchanged or removed."""
    before = {each["name"]: _fixed(each) for each in old["drivers"]}
    for each in spec["drivers"]:
        after = _fixed(each)
        if before.get(each["name"], after) != after:
            yield statuses.invalid(f"{path}drivers", statuses.shown(after), IMMUTABLE)


CSI_NODES: Final = kind_of(
    "storage.k8s.io/v1/csinodes",
    returns_deleted=True,
    defaults={"spec": {"drivers": []}},
    rules="""
        spec:
          drivers[]:
            name: driver default empty
            nodeID: required matches ".{0,256}" "must be 256 characters or less"
            allocatable:
              count: not-negative
            name: unique pointer
            hook keys
        """,
    update_rules="""
        spec change:
          hook drivers
        """,
    printer="Name; Drivers integer: count .spec.drivers; Age",
)

# Capacities

CAPACITIES: Final = kind_of(
    "storage.k8s.io/v1/csistoragecapacities",
    rules="""
        nodeTopology: selector
        storageClassName: subdomain default empty
        capacity: quantity
        """,
    update_rules="nodeTopology, storageClassName: immutable",
    printer="Name; StorageClassName: .storageClassName; Capacity: .capacity or <unset>",
)

# Attachments

_MAX_METADATA: Final = 256 * 1024
_MAX_MESSAGE: Final = 1024


def _sizes(status: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check the sizes of what a driver reports."""
    metadata = status.get("attachmentMetadata") or {}
    if sum(map(len, (*metadata, *metadata.values()))) > _MAX_METADATA:
        yield statuses.too_long(f"{path}attachmentMetadata", _MAX_METADATA)
    for name in ("attachError", "detachError"):
        # Upstream names the other limit.
        if len((status.get(name) or {}).get("message", "")) > _MAX_MESSAGE:
            yield statuses.too_long(f"{path}{name}.message", _MAX_METADATA)


ATTACHMENTS: Final = kind_of(
    "storage.k8s.io/v1/volumeattachments",
    returns_deleted=True,
    rules="""
        spec:
          attacher: driver default empty
          source always:
            when lacks inlineVolumeSpec persistentVolumeName:
              persistentVolumeName: required at self
                "must specify exactly one of inlineVolumeSpec and"
                "persistentVolumeName"
            persistentVolumeName: forbidden at self if has inlineVolumeSpec
              "must specify exactly one of inlineVolumeSpec and"
              "persistentVolumeName"
            persistentVolumeName: subdomain if lacks inlineVolumeSpec
          nodeName: subdomain default empty
        """,
    update_rules="spec: immutable",
    status_rules="""
        status:
          hook sizes
        """,
    printer="""
        Name
        Attacher: .spec.attacher
        PV: .spec.source.persistentVolumeName
        Node: .spec.nodeName
        Attached boolean: .status.attached
        Age
        """,
)
