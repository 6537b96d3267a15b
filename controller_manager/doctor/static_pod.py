"""The static pod of kube-controller-manager on a control plane node, and ours for it.

It reads what kubeadm, or another installer, wrote. Ours has the same flags, and sees of
the node only the files that they name.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.options.flag_set import FlagSet
from controller_manager.options.manager_pods import (
    GivenFlags,
    arguments_of,
    given_flags,
    manager_container,
)
from controller_manager.version import NAME, VERSION
from controller_manager.yaml_files import UnreadableFile, read_document

IMAGE: Final = f"{NAME}:{VERSION}"
"""The image of ours, if no other is named."""

_OTHER_FILES: Final = {"config", "leader-migration-config"}
_PAIRS: Final = "tls-sni-cert-key"
_OF_KUBECONFIGS: Final = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile")),
}
_PORT: Final = 10257


class StaticPodError(Exception):
    """A manifest cannot be used; the message names it and the mend."""


class _HostPath(Struct):
    path: str


class _Volume(Struct, rename="camel"):
    name: str
    host_path: _HostPath | None = None


class _Mount(Struct, rename="camel"):
    name: str
    mount_path: str
    sub_path: str | None = None


class _Container(Struct, rename="camel"):
    command: list[str] | None = None
    args: list[str] | None = None
    volume_mounts: list[_Mount] | None = None


class _Spec(Struct):
    containers: list[_Container]
    volumes: list[_Volume] | None = None


class _Pod(Struct):
    """The parts of a manifest that are used here, to find those of a wrong type."""

    spec: _Spec


class StaticPod:
    """The manifest of a static pod that runs a controller manager."""

    def __init__(self, path: Path, flags: FlagSet) -> None:
        """Read the manifest.

        Raises StaticPodError if it cannot be read, or runs no controller manager.
        """
        self.path = path
        try:
            document = read_document(path, str(path))
            msgspec.convert(document, _Pod)
        except UnreadableFile as error:
            raise StaticPodError(str(error)) from error
        except msgspec.ValidationError as error:
            msg = f"{path}: is no manifest of a pod: {error}"
            raise StaticPodError(msg) from error
        container = manager_container(document["spec"])
        if container is None:
            msg = (
                f"{path}: no container of it runs kube-controller-manager; name the "
                "manifest of its static pod, or give the flags"
            )
            raise StaticPodError(msg)
        self._document: JSON = document
        self._container = container
        self._arguments = arguments_of(container) or ()
        self.given: GivenFlags = given_flags(self._arguments, flags)
        """The flags of the manifest, with the paths that its container sees."""

    def flags_on_the_node(self) -> dict[str, tuple[str, ...]]:
        """Return the flags with the paths that the files have on the node."""
        return {
            name: tuple(self._on_the_node(name, each) for each in texts)
            for name, texts in self.given.values.items()
        }

    def _on_the_node(self, flag: str, text: str) -> str:
        for path in _paths(flag, text):
            if (found := self._host_path(path)) is not None:
                text = text.replace(str(path), str(found))
        return text

    def _mount(self, path: PurePosixPath) -> tuple[JSON, JSON] | None:
        """Return the mount that has a path, with its volume; `None` if none has it."""
        mounts = [
            each
            for each in self._container.get("volumeMounts") or ()
            if path.is_relative_to(each["mountPath"])
        ]
        if not mounts:
            return None
        mount = max(mounts, key=lambda each: len(each["mountPath"]))
        volumes = self._document["spec"].get("volumes") or ()
        named = (each for each in volumes if each["name"] == mount["name"])
        volume = next(named, None)
        return None if volume is None else (mount, volume)

    def _host_path(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the path on the node of a file that the container sees."""
        found = self._mount(path)
        if found is None or "hostPath" not in found[1]:
            return None
        mount, volume = found
        root = PurePosixPath(volume["hostPath"]["path"], mount.get("subPath") or "")
        return root / path.relative_to(mount["mountPath"])

    def ours(self, image: str = IMAGE) -> JSON:
        """Return the manifest of this program, with the same flags.

        Raises StaticPodError for a file that the container of the manifest does not
        see, or a kubeconfig that cannot be read here.
        """
        found = deepcopy(self._document)
        container = manager_container(found["spec"])
        assert container is not None  # noqa: S101 - it was found before
        mounts, volumes = self._files()
        changed: JSON = {
            **container,
            "command": [NAME, *self._arguments],
            "image": image,
            "securityContext": self._security(),
            # The caches grow with the cluster. A limit would end all controllers when
            # the cluster is busiest.
            "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}},
            "readinessProbe": self._readiness(),
            "volumeMounts": [*mounts, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - of the container
        }
        changed.pop("args", None)
        containers = found["spec"]["containers"]
        containers[containers.index(container)] = changed
        memory = {"medium": "Memory", "sizeLimit": "1Mi"}
        found["spec"]["volumes"] = [*volumes, {"name": "tmp", "emptyDir": memory}]
        return found

    def _security(self) -> JSON:
        """Return a context without capabilities, for the user who owns the keys.

        That is root, unless the manifest has another user.
        """
        spec = self._document["spec"]
        named = (spec.get("securityContext"), self._container.get("securityContext"))
        chosen = {
            name: each[name]
            for each in named
            for name in ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile")
            if each and name in each
        }
        user = {} if "runAsUser" in chosen else {"runAsUser": 0, "runAsGroup": 0}
        return {
            **user,
            **{
                name: value
                for name, value in (
                    self._container.get("securityContext") or {}
                ).items()
                if name in chosen
            },
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }

    def _readiness(self) -> JSON:
        probe = self._container.get("livenessProbe") or {}
        port = self.given.values.get("secure-port", (str(_PORT),))[-1]
        get = probe.get("httpGet") or {"port": int(port), "scheme": "HTTPS"}
        get = {**get, "path": "/readyz"}
        return {"httpGet": get, "periodSeconds": 5, "timeoutSeconds": 15}

    def _files(self) -> tuple[list[JSON], list[JSON]]:
        """Return the mounts and volumes of the files that the flags name."""
        mounts: list[JSON] = []
        volumes: dict[str, JSON] = {}
        for path, flag in sorted(self._named().items()):
            found = self._mount(path)
            if found is None:
                msg = (
                    f"{self.path}: --{flag} names {path}, and no volume is mounted "
                    "there; mount the file, or take the flag away"
                )
                raise StaticPodError(msg)
            host = self._host_path(path)
            if host is None:  # of another kind of volume, as a whole
                if found[1]["name"] not in volumes:
                    mounts.append(found[0])
                    volumes[found[1]["name"]] = found[1]
                continue
            name = _volume_name(path, volumes)
            mount = {"name": name, "mountPath": str(path), "readOnly": True}
            mounts.append(mount)
            source = {"path": str(host), "type": "File"}
            volumes[name] = {"name": name, "hostPath": source}
        return mounts, list(volumes.values())

    def _named(self) -> dict[PurePosixPath, str]:
        """Return the files that the flags name, also by way of kubeconfigs."""
        named: dict[PurePosixPath, str] = {}
        for flag, texts in self.given.values.items():
            for path in _paths(flag, texts[-1] if flag != _PAIRS else ",".join(texts)):
                named.setdefault(path, flag)
                if flag.endswith("kubeconfig"):
                    for each in self._of_kubeconfig(path):
                        named.setdefault(each, flag)
        return named

    def _of_kubeconfig(self, path: PurePosixPath) -> Iterator[PurePosixPath]:
        """Yield the files that a kubeconfig names."""
        where = f"{self.path}: the kubeconfig {path}"
        try:
            document = read_document(Path(self._host_path(path) or path), where)
        except UnreadableFile as error:
            raise StaticPodError(str(error)) from error
        for section, (part, fields) in _OF_KUBECONFIGS.items():
            for entry in _list(document, section):
                for field in fields:
                    if text := _dict(entry, part).get(field):
                        yield path.parent / str(text)


def _list(value: Any, key: str) -> list[Any]:  # noqa: ANN401 - YAML
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _dict(value: Any, key: str) -> Mapping[str, Any]:  # noqa: ANN401 - YAML
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _paths(flag: str, text: str) -> Iterator[PurePosixPath]:
    """Yield the absolute paths of files in the value of a flag, if it names files."""
    if flag == _PAIRS:
        texts = [each.partition(":")[0] for each in text.split(",")]
    elif flag.endswith(("-file", "kubeconfig")) or flag in _OTHER_FILES:
        texts = [text]
    else:
        return
    for each in texts:
        if each.startswith("/"):
            yield PurePosixPath(each)


def _volume_name(path: PurePosixPath, taken: Mapping[str, Any]) -> str:
    """Return a name for the volume of a file, such as ``ca-crt``."""
    base = re.sub("[^a-z0-9]+", "-", path.name.lower()).strip("-")[:50] or "file"
    names = (base, *(f"{base}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)
