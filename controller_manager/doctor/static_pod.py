"""The static pod of kube-controller-manager on a control plane node, and ours for it.

It reads what kubeadm, or another installer, wrote. Ours has the same flags, and sees of
the node only the files that they name.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.options import manager_pods
from controller_manager.options.flag_set import FlagSet
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
_TMP: Final = PurePosixPath("/tmp")  # noqa: S108 - of the container
_KEPT: Final = (
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "seccompProfile",
    "seLinuxOptions",
)
"""Fields of its security context that our container keeps."""


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


class _Probe(Struct, rename="camel"):
    http_get: dict[str, Any] | None = None


class _Container(Struct, rename="camel"):
    command: list[str] | None = None
    args: list[str] | None = None
    volume_mounts: list[_Mount] | None = None
    security_context: dict[str, Any] | None = None
    liveness_probe: _Probe | None = None


class _Spec(Struct, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None
    security_context: dict[str, Any] | None = None


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
        container = manager_pods.manager_container(document["spec"])
        if container is None:
            msg = (
                f"{path}: no container of it runs kube-controller-manager; name the "
                "manifest of its static pod, or give the flags"
            )
            raise StaticPodError(msg)
        self._document: JSON = document
        self._container = container
        self._arguments = manager_pods.arguments_of(container) or ()
        self.given: manager_pods.GivenFlags = manager_pods.given_flags(
            self._arguments, flags
        )
        """The flags of the manifest, with the paths that its container sees."""

    def flags_on_the_node(self) -> dict[str, tuple[str, ...]]:
        """Return the flags with the paths that the files have on the node."""
        return {
            name: tuple(self._on_the_node(name, each) for each in texts)
            for name, texts in self.given.values.items()
        }

    def _on_the_node(self, flag: str, text: str) -> str:
        files, rest = _files_in(flag, text)
        return ",".join(str(self._host_path(_path(each)) or each) for each in files) + (
            rest
        )

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
        if found is None or not found[1].get("hostPath"):
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
        container = manager_pods.manager_container(found["spec"])
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
            "volumeMounts": mounts,
        }
        changed.pop("args", None)
        if changed["readinessProbe"] is None:
            del changed["readinessProbe"]
        containers = found["spec"]["containers"]
        containers[containers.index(container)] = changed
        found["spec"]["volumes"] = volumes
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
            for name in _KEPT
            if each and each.get(name) is not None
        }
        # The kubelet starts no container of root that must not be root's.
        other = "runAsUser" in chosen or chosen.get("runAsNonRoot")
        user = {} if other else {"runAsUser": 0, "runAsGroup": 0}
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

    def _readiness(self) -> JSON | None:
        """Return the probe, `None` if the flags say that nothing is served."""
        probe = self._container.get("livenessProbe") or {}
        port = self.given.values.get("secure-port", (str(_PORT),))[-1]
        if not port.isdecimal():
            msg = f"{self.path}: --secure-port: must be a number, not {port!r}"
            raise StaticPodError(msg)
        if not int(port):
            return None
        get = probe.get("httpGet") or {"port": int(port), "scheme": "HTTPS"}
        get = {**get, "path": "/readyz"}
        return {"httpGet": get, "periodSeconds": 5, "timeoutSeconds": 15}

    def _files(self) -> tuple[list[JSON], list[JSON]]:
        """Return the mounts of our container, and the volumes of the pod."""
        mounts: list[JSON] = []
        volumes = self._volumes_of_others()
        kept = {
            each["name"]
            for each in self._document["spec"].get("volumes") or ()
            if not each.get("hostPath")
        }
        for path, flag in sorted(self._named().items()):
            found = self._mount(path)
            if found is None:
                msg = (
                    f"{self.path}: --{flag} names {path}, and no volume is mounted "
                    "there; mount the file, or take the flag away"
                )
                raise StaticPodError(msg)
            mount, volume = found
            host = self._host_path(path)
            if host is None:  # of another kind of volume, as a whole
                if mount not in mounts:
                    mounts.append(mount)
                volumes[volume["name"]] = volume
                continue
            name = _volume_name(path, volumes.keys() | kept)
            mounts.append({"name": name, "mountPath": str(path), "readOnly": True})
            source = {"path": str(host), "type": "File"}
            volumes[name] = {"name": name, "hostPath": source}
        if all(_path(each["mountPath"]) != _TMP for each in mounts):
            name = _volume_name(_TMP, volumes.keys())
            mounts.append({"name": name, "mountPath": str(_TMP)})
            memory = {"medium": "Memory", "sizeLimit": "1Mi"}
            volumes[name] = {"name": name, "emptyDir": memory}
        return mounts, list(volumes.values())

    def _volumes_of_others(self) -> dict[str, JSON]:
        """Return the volumes that the other containers of the pod mount."""
        spec = self._document["spec"]
        used = {
            mount["name"]
            for each in (*spec["containers"], *(spec.get("initContainers") or ()))
            if each is not self._container
            for mount in each.get("volumeMounts") or ()
        }
        volumes = spec.get("volumes") or ()
        return {each["name"]: each for each in volumes if each["name"] in used}

    def _named(self) -> dict[PurePosixPath, str]:
        """Return the files that the flags name, also by way of kubeconfigs."""
        named: dict[PurePosixPath, str] = {}
        for flag, texts in self.given.values.items():
            last = texts if flag == _PAIRS else texts[-1:]
            files = [file for text in last for file in _files_in(flag, text)[0]]
            for file in filter(None, files):
                if not file.startswith("/"):
                    msg = f"{self.path}: --{flag}: {file}: name the path from / on"
                    raise StaticPodError(msg)
                path = _path(file)
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
                        yield _path(str(path.parent / str(text)))


def _list(value: Any, key: str) -> list[Any]:  # noqa: ANN401 - YAML
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _dict(value: Any, key: str) -> Mapping[str, Any]:  # noqa: ANN401 - YAML
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _files_in(flag: str, text: str) -> tuple[list[str], str]:
    """Return the files that the value of a flag names, and the rest of the value."""
    if flag == _PAIRS:
        files, colon, names = text.partition(":")
        return files.split(","), colon + names
    if flag.endswith(("-file", "kubeconfig")) or flag in _OTHER_FILES:
        return [text], ""
    return [], text


def _path(text: str) -> PurePosixPath:
    """Return a path as a volume may have it, without ``..`` and doubled slashes."""
    return PurePosixPath(posixpath.normpath(re.sub("^/+", "/", text)))


def _volume_name(path: PurePosixPath, taken: AbstractSet[str]) -> str:
    """Return a name for the volume of a file, such as ``ca-crt``."""
    base = re.sub("[^a-z0-9]+", "-", path.name.lower())[:50].strip("-") or "file"
    names = (base, *(f"{base}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)
