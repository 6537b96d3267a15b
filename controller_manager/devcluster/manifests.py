"""Manifests: YAML files with several objects each."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from controller_manager.devcluster.kinds import Catalogue, Kind

JSON = dict[str, Any]


class ManifestError(Exception):
    """A manifest that cannot be applied; the message names file and mend."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file, and the kind that it is of."""

    where: str
    kind: Kind
    namespace: str
    obj: JSON

    @property
    def path(self) -> str:
        """The URL path of the collection that it belongs to."""
        root = f"/apis/{self.kind.group}" if self.kind.group else "/api"
        scope = f"/namespaces/{self.namespace}" if self.kind.namespaced else ""
        return f"{root}/{self.kind.version}{scope}/{self.kind.plural}"

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.obj["metadata"]["name"])


def read_manifests(files: list[Traversable | Path]) -> list[Manifest]:
    """Return the objects of all files, in order; raises ManifestError."""
    catalogue = Catalogue()
    return [
        _manifest(where, document, catalogue)
        for file in files
        for where, document in _documents(file)
    ]


def _documents(file: Traversable | Path) -> Iterator[tuple[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
        for number, document in enumerate(yaml.safe_load_all(text), start=1):
            if document is not None:
                yield f"{file.name}, document {number}", document
    except OSError as error:
        msg = f"manifest {file.name}: {error.strerror}"
        raise ManifestError(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not UTF-8 text"
        msg = f"manifest {file.name}{line}: not valid YAML: {problem}"
        raise ManifestError(msg) from error


def _manifest(where: str, document: Any, catalogue: Catalogue) -> Manifest:
    if not isinstance(document, dict):
        msg = f"manifest {where}: not an object"
        raise ManifestError(msg)
    version, name = str(document.get("apiVersion")), str(document.get("kind"))
    kind = catalogue.of(version, name)
    if kind is None or not kind.is_stored:
        msg = (
            f"manifest {where}: the development cluster has no kind {name} in "
            f"version {version}"
        )
        raise ManifestError(msg)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        msg = f"manifest {where}: {name} has no metadata.name"
        raise ManifestError(msg)
    return Manifest(where, kind, metadata.get("namespace") or "default", document)
