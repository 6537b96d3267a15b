"""The volume with the token of a pod's service account (TokenVolumeSource)."""

from collections.abc import Callable
from typing import Final

from controller_manager.api.json_objects import JSON

_PREFIX: Final = "kube-api-access-"
_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LIFETIME: Final = 3607
"""Seconds that a token is valid; upstream recognizes mounted tokens by this number."""


def mount_token(spec: JSON, suffix: Callable[[], str]) -> None:
    """Mount the token into each container without another mount at its path.

    `suffix` makes the end of the volume's name.
    """
    containers = [
        container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        if not _has_mount(container)
    ]
    volumes = spec.get("volumes") or []
    names = [each.get("name", "") for each in volumes]
    found = next((each for each in names if each.startswith(_PREFIX)), None)
    if not containers:
        return
    name = found or _PREFIX + suffix()
    for container in containers:
        mount = {"name": name, "readOnly": True, "mountPath": _PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if found is None:
        spec["volumes"] = [*volumes, {"name": name, "projected": _source()}]


def _has_mount(container: JSON) -> bool:
    mounts = container.get("volumeMounts") or ()
    return any(each.get("mountPath") == _PATH for each in mounts)


def _source() -> JSON:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _LIFETIME, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
        "defaultMode": 420,
    }
