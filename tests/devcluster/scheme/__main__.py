"""Write the files of types, descriptions and resources.

The table of an API server is a JSON document with ``models``, each type with its
fields, as ``scheme/models.py`` describes them, and ``discovery``, a list of
APIResourceLists. The descriptions are those of the installed kubernetes_asyncio.
"""

import zlib
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from controller_manager.devcluster.scheme import models as reading
from controller_manager.devcluster.scheme.models import (
    DATA,
    DESCRIPTIONS,
    RESOURCES,
    Index,
    Resource,
    package_of,
)

# The files: compressed parts behind an index, as the module reads them.

_LEVEL: Final = 9
_NOTE: Final = "# noqa: E501"


def write(models: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the file of models, which are given by name."""
    packages: dict[str, dict[str, Any]] = {}
    kinds: dict[str, str] = {}
    for name, model in sorted(models.items()):
        packages.setdefault(package_of(name), {})[name] = model
        for each in model.get("group-version-kind", ()):
            group = f"{each['group']}/" if each["group"] else ""
            kinds[f"{group}{each['version']} {each['kind']}"] = name
    places, content = {}, b""
    for name, some in packages.items():
        part = zlib.compress(msgspec.json.encode(some), _LEVEL)
        places[name] = len(content), len(part)
        content += part
    return msgspec.json.encode(Index(places, kinds)) + b"\n" + content


def collect(models: Iterable[str], classes: Any) -> bytes:
    """Return the file of the descriptions of some models.

    `classes` is the module ``kubernetes_asyncio.client.models``. A class is named after
    version and kind, and after the group where several groups have a kind of that name:
    ``V1Pod``, ``CoreV1Event``.
    """
    found = {name: _of_class(_find(name, classes)) for name in models}
    return write({name: texts for name, texts in found.items() if texts})


def _find(model: str, classes: Any) -> Any:
    package, _, kind = model.rpartition(".")
    group, _, version = package.rpartition(".")
    name = f"{version.capitalize()}{kind}"
    of_group = f"{group.rpartition('.')[2].capitalize()}{name}"
    return getattr(classes, of_group, None) or getattr(classes, name, None)


def _of_class(class_: Any) -> dict[str, str]:
    if class_ is None:
        return {}
    names: Mapping[str, str] = class_.attribute_map
    texts = {
        field: _description(getattr(class_, attribute).__doc__ or "")
        for attribute, field in names.items()
    }
    return {field: text for field, text in texts.items() if text}


def _description(docstring: str) -> str:
    paragraphs = docstring.split("\n\n")
    if len(paragraphs) < 3:
        return ""
    return " ".join(paragraphs[1].replace(_NOTE, "").split())


def write_resources(discovery: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the file of some APIResourceLists; raises msgspec.ValidationError."""
    lists = {each["groupVersion"]: each["resources"] for each in discovery}
    checked = msgspec.convert(lists, dict[str, list[Resource]])
    return zlib.compress(msgspec.json.encode(checked), _LEVEL)


# The table of an API server, and what it does not declare.

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_DISCOVERY: Final = "io.k8s.api.apidiscovery.v2"


def _kind(group: str, version: str, kind: str, fields: dict[str, Any]) -> Any:
    group_kind = {"group": group, "version": version, "kind": kind}
    return {"fields": fields, "group-version-kind": [group_kind], "type": "object"}


def _field(number: int, ref: str = "", **facts: Any) -> Any:
    """Return a field that holds a text, or a value of the model `ref`."""
    of = {"ref": ref} if ref else {"type": "string"}
    return {**of, "proto": (number,), **facts}


def _list(number: int, ref: str = "") -> Any:
    items = {"ref": ref} if ref else {"type": "string"}
    omitted = {"omitempty": True} if not ref.startswith(_META) else {}
    return {"type": "array", "items": items, "proto": (number,), **omitted}


def _model(**fields: Any) -> Any:
    return {"fields": fields, "type": "object"}


_UNDECLARED: Final[dict[str, dict[str, Any]]] = {
    f"{_META}.PartialObjectMetadata": _kind(
        "meta.k8s.io",
        "v1",
        "PartialObjectMetadata",
        {"metadata": _field(1, f"{_META}.ObjectMeta", omitempty=True)},
    ),
    f"{_META}.PartialObjectMetadataList": _kind(
        "meta.k8s.io",
        "v1",
        "PartialObjectMetadataList",
        {
            "metadata": _field(1, f"{_META}.ListMeta", omitempty=True),
            "items": _list(2, f"{_META}.PartialObjectMetadata"),
        },
    ),
    f"{_META}.GroupVersionKind": _model(
        group=_field(1), version=_field(2), kind=_field(3)
    ),
    f"{_META}.Verbs": {"type": "array", "items": {"type": "string"}},
    f"{_DISCOVERY}.APIGroupDiscoveryList": _kind(
        "apidiscovery.k8s.io",
        "v2",
        "APIGroupDiscoveryList",
        {
            "metadata": _field(1, f"{_META}.ListMeta", omitempty=True),
            "items": _list(2, f"{_DISCOVERY}.APIGroupDiscovery"),
        },
    ),
    f"{_DISCOVERY}.APIGroupDiscovery": _model(
        metadata=_field(1, f"{_META}.ObjectMeta", omitempty=True),
        versions=_list(2, f"{_DISCOVERY}.APIVersionDiscovery"),
    ),
    f"{_DISCOVERY}.APIVersionDiscovery": _model(
        version=_field(1),
        resources=_list(2, f"{_DISCOVERY}.APIResourceDiscovery"),
        freshness=_field(3, omitempty=True),
    ),
    f"{_DISCOVERY}.APIResourceDiscovery": _model(
        resource=_field(1),
        responseKind=_field(2, f"{_META}.GroupVersionKind", omitempty=True),
        scope=_field(3),
        singularResource=_field(4),
        verbs=_list(5),
        shortNames=_list(6),
        categories=_list(7),
        subresources=_list(8, f"{_DISCOVERY}.APISubresourceDiscovery"),
    ),
    f"{_DISCOVERY}.APISubresourceDiscovery": _model(
        subresource=_field(1),
        responseKind=_field(2, f"{_META}.GroupVersionKind", omitempty=True),
        acceptedTypes=_list(3, f"{_META}.GroupVersionKind"),
        verbs=_list(4),
    ),
}
"""Types that an API server sends and does not declare.

They are metadata of any kind, all discovery in one document, and the message that the
verbs of an APIResource are.
"""

_PLACE: Final = ("proto", "inside")


@click.command()
@click.argument("table", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--directory",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=Path(reading.__file__).parent,
    help="The directory of the files, that of the package by default.",
)
def main(table: Path, directory: Path) -> None:
    """Write the models and the resources of TABLE, and descriptions, into files."""
    content: dict[str, Any] = msgspec.json.decode(table.read_bytes())
    models: dict[str, dict[str, Any]] = content["models"]
    models.update(_UNDECLARED)
    if resource := models.get(f"{_META}.APIResource"):
        verbs = resource["fields"]["verbs"]
        resource["fields"]["verbs"] = _field(verbs["proto"][0], f"{_META}.Verbs")
    for name, model in models.items():
        _complete(models, name, model)
    _write(directory / DATA, write(models), f"{len(models)} models")
    classes = import_module("kubernetes_asyncio.client.models")  # takes long
    texts = collect(models, classes)
    _write(directory / DESCRIPTIONS, texts, "the descriptions of fields")
    lists = content["discovery"]
    _write(
        directory / RESOURCES,
        write_resources(lists),
        f"the resources of {len(lists)} group versions",
    )


def _write(path: Path, data: bytes, contents: str) -> None:
    path.write_bytes(data)
    click.echo(f"{path.name}: {contents} in {len(data)} bytes")


def _complete(
    models: dict[str, dict[str, Any]], name: str, model: dict[str, Any]
) -> None:
    """Correct the field numbers of a type.

    A field without a number gets that of the type of its name in v1. The type of an
    object has no apiVersion and kind in its message: the envelope has them.
    """
    fields: dict[str, dict[str, Any]] = model.get("fields", {})
    package, _, short = name.rpartition(".")
    stable = models.get(f"{package.rpartition('.')[0]}.v1.{short}", {})
    for field_name, known in stable.get("fields", {}).items():
        field = fields.get(field_name, {"proto": ()})
        if "proto" not in field:
            field.update({each: known[each] for each in _PLACE if each in known})
    if "group-version-kind" in model:
        for each in fields.keys() & {"apiVersion", "kind"}:
            fields[each].pop("proto", None)


if __name__ == "__main__":
    main()
