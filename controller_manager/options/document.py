"""The options as a tree, as in a configuration file and in /configz.

The shape is upstream's KubeControllerManagerConfiguration (v1alpha1, files
staging/src/k8s.io/kube-controller-manager/config/v1alpha1/types.go and those
that it embeds), with further sections for options that upstream has only as flags.
"""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml

from controller_manager.yaml_files import UnreadableFile, read_document

from .flag import FlagType
from .flag_set import CARRIED, FILE_ONLY, FlagSet
from .values import check_file_value, default_value

API_VERSION: Final = "kubecontrollermanager.config.k8s.io/v1alpha1"
KIND: Final = "KubeControllerManagerConfiguration"

_NOT_IN_FILES: Final = frozenset(("config",))

_FIRST: Final = (
    "Generic",
    "KubeCloudShared",
    "AttachDetachController",
    "CSRSigningController",
)
"""Sections in upstream's order; the others follow in the order of the flags."""


class FileError(Exception):
    """A configuration file that cannot be used; `problems` has a line for each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def defaults(flags: FlagSet) -> dict[str, Any]:
    """Return every path and its default."""
    values = {path: value for path, _, value in FILE_ONLY} | dict(CARRIED)
    for flag in flags:
        if flag.name not in _NOT_IN_FILES:
            values[flag.path] = default_value(flag)
    return values


def as_tree(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by path as a nested document with kind and apiVersion."""
    tree: dict[str, Any] = {"kind": KIND, "apiVersion": API_VERSION}
    for section in _FIRST:
        tree[section] = {}
    for path, value in values.items():
        *parents, name = path.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return tree


def _types(flags: FlagSet) -> dict[str, FlagType]:
    types: dict[str, FlagType] = {path: kind for path, kind, _ in FILE_ONLY}
    for flag in flags:
        if flag.name not in _NOT_IN_FILES:
            types[flag.path] = flag.type
    return types


def read_file(path: Path, flags: FlagSet) -> dict[str, Any]:
    """Return the values that a configuration file sets, by path.

    Raises FileError with every field that is unknown or of a wrong type.
    """
    document = _load(path)
    problems: list[str] = []
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        given = document.pop(key, None)
        if given != wanted:
            shown = "missing" if given is None else repr(given)
            problems.append(f"--config {path}: {key} must be {wanted}, it is {shown}")
    if problems:
        raise FileError(*problems)
    values: dict[str, Any] = {}
    _collect(document, "", _types(flags), values, problems, f"--config {path}")
    if problems:
        raise FileError(*problems)
    return values


def _load(path: Path) -> dict[str, Any]:
    try:
        document = read_document(path, f"--config {path}", unique_keys=True)
    except UnreadableFile as error:
        raise FileError(str(error)) from error
    if not isinstance(document, dict):
        msg = f"--config {path}: its top level is not a mapping"
        raise FileError(msg)
    return cast("dict[str, Any]", document)


def _collect(
    tree: Mapping[str, Any],
    prefix: str,
    types: Mapping[str, FlagType],
    values: dict[str, Any],
    problems: list[str],
    where: str,
) -> None:
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if "." in str(key):
            problems.append(f"{where}: {path}: unknown field, nest it instead")
        elif path in types:
            try:
                values[path] = check_file_value(types[path], value)
            except ValueError as error:
                problems.append(f"{where}: {path}: {error}")
        elif path in CARRIED:
            wanted = type(CARRIED[path])
            if isinstance(value, wanted) and _is_plain(value):
                values[path] = value
            else:
                kind = "mapping" if wanted is dict else "list"
                problems.append(f"{where}: {path}: must be a {kind}, not {value!r}")
        elif not any(known.startswith(f"{path}.") for known in types):
            problems.append(f"{where}: {path}: unknown field{_hint(path, types)}")
        elif isinstance(value, dict):
            _collect(value, f"{path}.", types, values, problems, where)
        elif value is not None:
            problems.append(f"{where}: {path}: must be a mapping, not {value!r}")


def _is_plain(value: Any) -> bool:  # noqa: ANN401 - any YAML
    """Tell whether a value can be written as JSON."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _hint(path: str, types: Mapping[str, FlagType]) -> str:
    depth = path.count(".") + 1
    known = {".".join(each.split(".")[:depth]) for each in types}
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(path.lower(), folded, n=1)
    return f"; did you mean {folded[close[0]]}?" if close else ""


def dump(tree: Mapping[str, Any]) -> str:
    """Return a document as YAML that `read_file` reads."""
    text: str = yaml.dump(dict(tree), Dumper=_WithoutAliases, sort_keys=False)
    return text


class _WithoutAliases(yaml.SafeDumper):
    """Writes each value in full, even if the same value was written before."""

    def ignore_aliases(self, _: object) -> bool:
        return True
