"""Kubeconfig files: reading, merging, and the context in use.

This module only reads the files; `credentials` uses their certificates, tokens and
plugins. Upstream: client-go tools/clientcmd.
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import without_nulls
from controller_manager.yaml_files import UnreadableFile, read_document

SectionT = TypeVar("SectionT")

_KIND: Final = "Config"
_SECTIONS: Final = ("clusters", "contexts", "users")
_FIELDS: Final = (*_SECTIONS, "current-context")
_PATHS: Final = (
    "certificate-authority",
    "client-certificate",
    "client-key",
    "tokenFile",
)


class ConfigError(Exception):
    """A configuration cannot be used; the message has the problem and the remedy."""


class Extension(Struct, frozen=True):
    """Additional data in a kubeconfig, such as the configuration of a plugin."""

    name: str = ""
    extension: Any = None


class ClusterSection(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The address of an API server, and its certificate authorities."""

    server: str | None = ""
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = False
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    extensions: list[Extension] | None = None


class EnvironmentVariable(Struct, frozen=True):
    """An environment variable for an exec plugin."""

    name: str = ""
    value: str = ""


class ExecSection(Struct, frozen=True, kw_only=True, rename="camel"):
    """An exec plugin: a program that prints credentials."""

    command: str = ""
    args: list[str] | None = None
    env: list[EnvironmentVariable] | None = None
    api_version: str = ""
    interactive_mode: str | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = False


class UserSection(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The identity to present to an API server."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    as_user: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    auth_provider: dict[str, Any] | None = None
    exec: ExecSection | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The cluster and the user that a context names.

    `where` is the start of every error message about them. File names are absolute.
    `config` is the merged content of all files, `base` the directory of the first.
    """

    name: str
    where: str
    cluster: ClusterSection
    user: UserSection
    config: Mapping[str, Any]
    base: Path


def read_kubeconfig(paths: str, context: str | None = None) -> Context:
    """Return the current context, or the one named `context`, of one or more files.

    `paths` may name several files, separated as in ``$KUBECONFIG``. If several files
    define the same entry, the first one wins. All but one of the files may be
    missing. Raises ConfigError.
    """
    config, base = _merge(paths)
    where = f"kubeconfig {paths}"
    name = context or config.get("current-context") or ""
    if not name:
        msg = f"{where}: no current-context is set; set one of: {_names(config)}"
        raise ConfigError(msg)
    chosen = _named(config, "contexts", "context", name, where)
    named = chosen.get("cluster")
    cluster = _typed(
        _named(config, "clusters", "cluster", named, where),
        ClusterSection,
        f"{where}: cluster {named!r}",
    )
    user = UserSection()
    if named := chosen.get("user"):
        user = _typed(
            _named(config, "users", "user", named, where),
            UserSection,
            f"{where}: user {named!r}",
        )
    return Context(str(name), where, cluster, user, config, base)


def _typed(section: Mapping[str, Any], kind: type[SectionT], where: str) -> SectionT:
    try:
        return msgspec.convert(without_nulls(section, kind), kind)
    except msgspec.ValidationError as error:
        problem, _, field = str(error).partition(" - at `$.")
        field = field.rstrip("`")
        shown = f"{field}: {problem}" if field else problem
        msg = f"{where}: {shown}"
        raise ConfigError(msg) from error


def material(
    data: str | None, file: str | None, name: str, where: str
) -> bytes | Path | None:
    """Return the content of ``NAME-data``, or the path in ``NAME``, or `None`.

    Raises ConfigError if the file cannot be read or the data is not base64.
    """
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except ValueError as error:
            msg = f"{where}: {name}-data is not base64: {error}"
            raise ConfigError(msg) from error
    if file:
        path = Path(file)
        try:
            path.read_bytes()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            msg = f"{where}: {name} {path}: {why}"
            raise ConfigError(msg) from error
        return path
    return None


def _merge(paths: str) -> tuple[dict[str, Any], Path]:
    named = [_expanded(text) for text in paths.split(os.pathsep) if text]
    # If one of several files does not exist, it is ignored, as kubectl does.
    files = [path for path in named if _exists(path)] or named
    merged: dict[str, Any] = {}
    for path in files:
        _merge_one(merged, path, _read(path))
    return merged, files[0].resolve().parent if files else Path()


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        msg = f"kubeconfig {text}: {error}"
        raise ConfigError(msg) from error


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True  # the error of reading it will explain the problem


def _merge_one(merged: dict[str, Any], path: Path, document: dict[str, Any]) -> None:
    for key, value in document.items():
        if key in _SECTIONS and not isinstance(value, list | None):
            msg = f"kubeconfig {path}: {key} must be a list"
            raise ConfigError(msg)
        if isinstance(value, list):
            merged.setdefault(key, [])
            known = [entry.get("name") for entry in merged[key]]
            merged[key] += [
                _with_absolute_paths(entry, path.resolve().parent)
                for entry in value
                if isinstance(entry, dict) and entry.get("name") not in known
            ]
        elif value is not None and not merged.get(key):
            merged[key] = value


def _with_absolute_paths(entry: dict[str, Any], base: Path) -> dict[str, Any]:
    return {
        key: {
            inner: str(base / str(value)) if inner in _PATHS and value else value
            for inner, value in body.items()
        }
        if isinstance(body, dict)
        else body
        for key, body in entry.items()
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_document(path, f"kubeconfig {path}")
    except UnreadableFile as error:
        raise ConfigError(str(error)) from error
    if document is None:
        msg = f"kubeconfig {path}: the file is empty"
        raise ConfigError(msg)
    if not isinstance(document, dict):
        msg = f"kubeconfig {path}: not a kubeconfig: its top level is no mapping"
        raise ConfigError(msg)
    if why := _why_not_kubeconfig(document):
        msg = f"kubeconfig {path}: not a kubeconfig: {why}"
        raise ConfigError(msg)
    return cast("dict[str, Any]", document)


def _why_not_kubeconfig(document: Mapping[str, Any]) -> str:
    kind = document.get("kind") or ""
    if kind not in ("", _KIND):
        return f"its kind is {kind!r}, not {_KIND!r}"
    if not kind and not any(field in document for field in _FIELDS):
        return f"it has none of the fields {', '.join(_FIELDS)}"
    return ""


def _names(config: Mapping[str, Any]) -> str:
    contexts = config.get("contexts") or []
    return ", ".join(str(entry.get("name")) for entry in contexts) or "(none defined)"


def _named(
    config: Mapping[str, Any], section: str, key: str, name: object, where: str
) -> Mapping[str, Any]:
    for entry in config.get(section) or []:
        if entry.get("name") == name:
            body = entry.get(key)
            if isinstance(body, dict):
                return body
            break
    else:
        known = ", ".join(str(entry.get("name")) for entry in config.get(section) or [])
        msg = f"{where}: there is no {key} {name!r}; there is: {known or '(none)'}"
        raise ConfigError(msg)
    msg = f"{where}: {key} {name!r} has no {key!r} mapping"
    raise ConfigError(msg)
