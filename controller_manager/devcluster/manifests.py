"""Manifests: YAML files with several objects each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import error_from_response, is_success
from controller_manager.client.rest.transport import Request, Transport
from controller_manager.devcluster.apiserver.kind import Catalogue, Kind
from controller_manager.yaml_files import UnreadableFile, read_documents

from .registry import find_kinds

_DEFINITION: Final = "CustomResourceDefinition"
_FIRST: Final = {"Namespace": 0, _DEFINITION: 1}
"""The kinds whose objects others need."""


class ManifestError(Exception):
    """A manifest cannot be applied; the message names the file and how to repair it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file, and its kind."""

    where: str
    kind: Kind
    namespace: str
    obj: JSON

    @property
    def path(self) -> str:
        """The URL path of the object's collection."""
        root = f"/apis/{self.kind.group}" if self.kind.group else "/api"
        scope = f"/namespaces/{self.namespace}" if self.kind.namespaced else ""
        return f"{root}/{self.kind.version}{scope}/{self.kind.plural}"

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.obj["metadata"]["name"])


def read_manifests(paths: Sequence[Traversable | Path]) -> list[Manifest]:
    """Return the objects of all files, and of the YAML files in all directories.

    Namespaces come first, whichever file they are in, then the definitions of custom
    resources. Raises ManifestError.
    """
    documents: list[tuple[str, Any]] = []
    for path in paths:
        found = [each for file in _files(path) for each in _documents(file)]
        if not found:
            raise ManifestError(f"manifest {path.name}: has no object in it")
        documents += found
    catalogue = Catalogue(find_kinds())
    for _, document in documents:
        for kind in _defined_kinds(document):
            catalogue.add(kind)
    manifests = [_manifest(where, each, catalogue) for where, each in documents]
    return sorted(manifests, key=lambda each: _FIRST.get(each.kind.kind, len(_FIRST)))


def parted(manifests: Sequence[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """Return the objects to create before controllers start, and those after.

    Pods come after: controllers create the service accounts without which the API
    server refuses them.
    """
    before: list[Manifest] = []
    after: list[Manifest] = []
    for each in manifests:
        (after if each.kind.resource == "pods" else before).append(each)
    return before, after


async def apply_manifests(
    transport: Transport,
    manifests: Sequence[Manifest],
    created: Callable[[Manifest], None],
) -> None:
    """Create all objects in order, and report each.

    Raises ManifestError with the API server's message if it refuses one.
    """
    for manifest in manifests:
        request = Request(
            "POST",
            manifest.path,
            query=(("fieldValidation", "Strict"),),
            headers={"content-type": "application/json"},
            body=msgspec.json.encode(manifest.obj),
        )
        answer = await transport.request(request)
        if not is_success(answer.status):
            error = error_from_response(
                answer.status, answer.body, None, answer.headers.get("location")
            )
            raise ManifestError(f"manifest {manifest.where}: {error}")
        created(manifest)


def _files(path: Traversable | Path) -> list[Traversable | Path]:
    if not path.is_dir():
        return [path]
    found = [each for each in path.iterdir() if each.name.endswith((".yaml", ".yml"))]
    if not found:
        raise ManifestError(f"manifest directory {path.name}: has no .yaml files")
    return sorted(found, key=lambda each: each.name)


def _documents(file: Traversable | Path) -> Iterator[tuple[str, Any]]:
    try:
        documents = read_documents(file, f"manifest {file.name}")
    except UnreadableFile as error:
        raise ManifestError(str(error)) from error
    for number, document in enumerate(documents, start=1):
        if document is not None:
            yield f"{file.name}, document {number}", document


def _defined_kinds(document: Any) -> Iterator[Kind]:
    """Yield the kinds that a document defines; the API server judges the definition."""
    if not isinstance(document, dict) or document.get("kind") != _DEFINITION:
        return
    try:
        spec = document["spec"]
        names, namespaced = spec["names"], spec["scope"] == "Namespaced"
        for version in spec["versions"]:
            yield Kind(
                spec["group"],
                version["name"],
                names["kind"],
                names["plural"],
                namespaced=namespaced,
                is_custom=True,
            )
    except (KeyError, TypeError):
        return


def _manifest(where: str, document: Any, catalogue: Catalogue) -> Manifest:
    version, name = _type_of(where, document)
    kind = catalogue.of(version, name)
    if kind is None or not kind.is_stored:
        raise ManifestError(
            f"manifest {where}: the development cluster has no kind {name} in "
            f"version {version}"
        )
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise ManifestError(f"manifest {where}: {name} has no metadata.name")
    return Manifest(where, kind, metadata.get("namespace") or "default", document)


def _type_of(where: str, document: Any) -> tuple[str, str]:
    """Return apiVersion and kind of an object; raises ManifestError without them."""
    if not isinstance(document, dict):
        found = "a list" if isinstance(document, list) else f"the value {document!r}"
        raise ManifestError(
            f"manifest {where}: must be an object with apiVersion and kind, it is "
            f"{found}"
        )
    for field in ("apiVersion", "kind"):
        given = document.get(field)
        if given is None:
            msg = f"manifest {where}: {field} is missing, every object must have one"
            raise ManifestError(msg)
        if not isinstance(given, str):
            msg = f"manifest {where}: {field} must be a string, it is {given!r}"
            raise ManifestError(msg)
    return document["apiVersion"], document["kind"]
