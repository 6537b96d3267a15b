"""What the server says about itself."""

import base64
import hashlib
from typing import Any, Final

from controller_manager.devcluster.kinds import Catalogue, Kind
from controller_manager.version import KUBERNETES_VERSION

JSON = dict[str, Any]

_MAJOR, _MINOR, _PATCH = KUBERNETES_VERSION.removeprefix("v").split(".")

VERSION: Final[JSON] = {
    "major": _MAJOR,
    "minor": _MINOR,
    "emulationMajor": _MAJOR,
    "emulationMinor": _MINOR,
    "minCompatibilityMajor": _MAJOR,
    "minCompatibilityMinor": str(int(_MINOR) - 1),
    "gitVersion": KUBERNETES_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "python",
    "platform": "linux/amd64",
}


def api_versions(address: str) -> JSON:
    """Return the answer to ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
        ],
    }


def api_groups(catalogue: Catalogue) -> JSON:
    """Return the answer to ``/apis``."""
    groups = [
        _group(name, version) for name, version in catalogue.group_versions() if name
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(catalogue: Catalogue, name: str) -> JSON | None:
    """Return the answer to ``/apis/GROUP``."""
    for group, version in catalogue.group_versions():
        if group == name:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, version)}
    return None


def _group(name: str, version: str) -> JSON:
    entry = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def api_resources(catalogue: Catalogue, group: str, version: str) -> JSON | None:
    """Return the answer to ``/apis/GROUP/VERSION``."""
    kinds = catalogue.kinds(group, version)
    if kinds is None:
        return None
    resources = sorted(
        (entry for kind in kinds for entry in _entries(kind)),
        key=lambda entry: str(entry["name"]),
    )
    # The core group's list carries no apiVersion of its own; the others' do.
    answer: JSON = {"kind": "APIResourceList"}
    if group:
        answer["apiVersion"] = "v1"
    answer["groupVersion"] = f"{group}/{version}" if group else version
    answer["resources"] = resources
    return answer


def _entries(kind: Kind) -> list[JSON]:
    entry: JSON = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.is_stored:
        entry["storageVersionHash"] = _storage_version_hash(kind)
    entries = [entry]
    for sub in kind.subresources:
        entry = {
            "name": f"{kind.plural}/{sub.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
        }
        if sub.group:
            entry["group"] = sub.group
            entry["version"] = sub.version
        entry["kind"] = sub.kind
        entry["verbs"] = list(sub.verbs)
        entries.append(entry)
    return entries


def _storage_version_hash(kind: Kind) -> str:

    digest = hashlib.sha256(f"{kind.group}/{kind.version}/{kind.kind}".encode())
    return base64.b64encode(digest.digest()[:8]).decode()
