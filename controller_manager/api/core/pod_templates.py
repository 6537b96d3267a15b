"""Templates of pods as JSON: the defaults of a spec, and equality by meaning.

The defaults are those that the API server of 1.36 fills in. Upstream:
pkg/apis/core/v1/defaults.go and zz_generated.defaults.go; for the names of images
ParseImageName of pkg/util/parsers, and ParseNormalizedNamed of the module
github.com/distribution/reference. Fields that upstream fills in only in pods, such as
host ports and requests, are left out here.

Two templates that make the same pods may be written in several ways (apimachinery's
equality.Semantic). The API server takes ``1Gi`` and ``1073741824``, and stores both as
they came; lists and maps may be empty, null or absent. `canonical_template` returns one
form for all of them. Callers compare the bytes first, because templates are nearly
always written alike.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON, object_at, objects_at
from controller_manager.api.quantity import Quantity, QuantityError, parse_quantity

LATEST: Final = "latest"

_LONGEST: Final = 1024
"""Characters; longer texts are no names of images."""

_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[A-Fa-f0-9:]+\])(?::\d+)?"
_PATH: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DIGEST: Final = r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}"
_IMAGE: Final = re.compile(
    rf"(?:{_DOMAIN}/)?{_PATH}(?:/{_PATH})*(?::([\w][\w.-]{{0,127}}))?(@(?:{_DIGEST}))?",
    re.ASCII,
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")


def tag_of(image: str) -> str:
    """Return the tag of an image; "latest" if it has neither a tag nor a digest.

    "" for an image with only a digest, and for a text that is no name of an image.
    """
    if len(image) > _LONGEST or _IDENTIFIER.fullmatch(image) is not None:
        return ""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return ""
    return found[1] or ("" if found[2] else LATEST)


_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_READABLE: Final = 0o644

_SOURCES: Final[Mapping[str, Mapping[str, Any]]] = {
    "azureDisk": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "kind": "Shared",
        "readOnly": False,
    },
    "configMap": {"defaultMode": _READABLE},
    "downwardAPI": {"defaultMode": _READABLE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "projected": {"defaultMode": _READABLE},
    "rbd": {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"},
    "scaleIO": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
    "secret": {"defaultMode": _READABLE},
}
"""The defaults of the sources of volumes."""

_TOKEN_LIFETIME: Final = 3600


def default_pod_spec(spec: JSON) -> None:
    """Fill in the spec of a pod template, in place.

    Parts of a form that the API server does not allow are left unchanged.
    """
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for name in CONTAINERS:
        for container in objects_at(spec, name):
            _container(container)
    for volume in objects_at(spec, "volumes"):
        _volume(volume)


def _container(container: JSON) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image")))
    for port in objects_at(container, "ports"):
        port.setdefault("protocol", "TCP")
    for variable in objects_at(container, "env"):
        source = object_at(variable, "valueFrom")
        _field(source)
        object_at(source, "fileKeyRef").setdefault("optional", False)
    for name in _PROBES:
        if name in container:
            _probe(object_at(container, name))
    lifecycle = object_at(container, "lifecycle")
    for name in ("postStart", "preStop"):
        _http_get(object_at(lifecycle, name))


def _pull_policy(image: Any) -> str:  # noqa: ANN401 - it is not validated
    is_latest = isinstance(image, str) and tag_of(image) == LATEST
    return "Always" if is_latest else "IfNotPresent"


def _probe(probe: JSON) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _http_get(probe)
    object_at(probe, "grpc").setdefault("service", "")


def _http_get(action: JSON) -> None:
    get = object_at(action, "httpGet")
    get.setdefault("path", "/")
    get.setdefault("scheme", "HTTP")


def _field(holder: JSON) -> None:
    object_at(holder, "fieldRef").setdefault("apiVersion", "v1")


def _volume(volume: JSON) -> None:
    if volume.keys() == {"name"}:
        volume["emptyDir"] = {}
    for name, defaults in _SOURCES.items():
        source = object_at(volume, name)
        for field, value in defaults.items():
            source.setdefault(field, value)
    if "image" in volume:
        image = object_at(volume, "image")
        image.setdefault("pullPolicy", _pull_policy(image.get("reference")))
    claim = object_at(object_at(volume, "ephemeral"), "volumeClaimTemplate")
    object_at(claim, "spec").setdefault("volumeMode", "Filesystem")
    for holder in (volume, *objects_at(object_at(volume, "projected"), "sources")):
        for item in objects_at(object_at(holder, "downwardAPI"), "items"):
            _field(item)
        token = object_at(holder, "serviceAccountToken")
        token.setdefault("expirationSeconds", _TOKEN_LIFETIME)


_EMPTY_IS_ABSENT: Final = frozenset(
    (
        "annotations",
        "labels",
        "limits",
        "matchLabels",
        "metadata",
        "nodeSelector",
        "options",
        "overhead",
        "requests",
        "volumeAttributes",
    )
)
"""Fields that are maps in Go, or structs that are always written.

Any other field with an empty object is a pointer in Go. There an empty object differs
from none: ``emptyDir: {}`` is a volume. ``resources`` is a pointer in the spec of a
pod, and a struct in containers and claims.
"""

CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
"""The fields of a pod's spec that have containers."""


def canonical_template(template: JSON) -> JSON:
    """Return a copy of a pod template in the form that all equal templates share."""
    pruned: JSON = without_empty(template)
    spec = object_at(pruned, "spec")
    if spec:
        _canonize_spec(spec)
    return pruned


def canonical_spec(spec: JSON) -> JSON:
    """Return a copy of the spec of a pod template, as `canonical_template` does."""
    pruned: JSON = without_empty(spec)
    _canonize_spec(pruned)
    return pruned


def without_empty(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a copy without null values, empty lists and empty maps."""
    if isinstance(value, dict):
        pruned = {key: without_empty(inner) for key, inner in value.items()}
        return {
            key: inner
            for key, inner in pruned.items()
            if inner is not None
            and inner != []
            and (inner != {} or key not in _EMPTY_IS_ABSENT)
        }
    if isinstance(value, list | tuple):
        return [without_empty(inner) for inner in value]
    return value


def canonical_amount(text: str) -> str:
    """Return the text that all quantities of one amount share.

    A text that is no quantity is returned unchanged.
    """
    try:
        return str(Quantity(parse_quantity(text).nanos))
    except QuantityError:
        return text


def _canonize_spec(spec: JSON) -> None:
    _canonize(spec, "overhead")
    _canonize_amounts(object_at(spec, "resources"))
    for name in CONTAINERS:
        for container in objects_at(spec, name):
            _canonize_resources(container)
            for variable in objects_at(container, "env"):
                _canonize_divisor(object_at(variable, "valueFrom"))
    for volume in objects_at(spec, "volumes"):
        _canonize_volume(volume)


def _canonize_volume(volume: JSON) -> None:
    _canonize_field(object_at(volume, "emptyDir"), "sizeLimit")
    claim = object_at(object_at(volume, "ephemeral"), "volumeClaimTemplate")
    _canonize_resources(object_at(claim, "spec"))
    sources = objects_at(object_at(volume, "projected"), "sources")
    for holder in (volume, *sources):
        for item in objects_at(object_at(holder, "downwardAPI"), "items"):
            _canonize_divisor(item)


def _canonize_resources(holder: JSON) -> None:
    """Write the resources of a container or claim in one form, none if empty."""
    _canonize_amounts(object_at(holder, "resources"))
    if holder.get("resources") == {}:
        del holder["resources"]


def _canonize_amounts(resources: JSON) -> None:
    _canonize(resources, "requests")
    _canonize(resources, "limits")


def _canonize_divisor(holder: JSON) -> None:
    """Write a divisor in one form; zero means the same as no divisor."""
    reference = object_at(holder, "resourceFieldRef")
    _canonize_field(reference, "divisor")
    if reference.get("divisor") == "0":
        del reference["divisor"]


def _canonize(holder: JSON, name: str) -> None:
    amounts = object_at(holder, name)
    for each in amounts:
        _canonize_field(amounts, each)


def _canonize_field(holder: JSON, name: str) -> None:
    value = holder.get(name)
    # A quantity may be a number in JSON, but not a boolean.
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        holder[name] = canonical_amount(str(value))
