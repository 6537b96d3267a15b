"""Write the files of types and resources from a table of an API server.

The table is a JSON document with ``models``, each type with its fields, as
``models.py`` describes them, and ``discovery``, a list of APIResourceLists.
"""

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from controller_manager.devcluster.schema import resources
from controller_manager.devcluster.schema.file import write
from controller_manager.devcluster.schema.models import DATA

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"


def _metadata(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    group_kind = {"group": "meta.k8s.io", "version": "v1", "kind": kind}
    return {"fields": fields, "group-version-kind": [group_kind], "type": "object"}


_METADATA: Final[dict[str, dict[str, Any]]] = {
    f"{_META}.PartialObjectMetadata": _metadata(
        "PartialObjectMetadata",
        {"metadata": {"ref": f"{_META}.ObjectMeta", "proto": (1,), "omitempty": True}},
    ),
    f"{_META}.PartialObjectMetadataList": _metadata(
        "PartialObjectMetadataList",
        {
            "metadata": {"ref": f"{_META}.ListMeta", "proto": (1,), "omitempty": True},
            "items": {
                "type": "array",
                "items": {"ref": f"{_META}.PartialObjectMetadata"},
                "proto": (2,),
            },
        },
    ),
}
"""Types that an API server sends and does not declare: metadata of any kind."""

_PLACE: Final = ("proto", "inside")


@click.command()
@click.argument("table", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--directory",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=Path(__file__).parent,
    help="The directory of the files, that of the package by default.",
)
def main(table: Path, directory: Path) -> None:
    """Write the models and the resources of TABLE into files."""
    content: dict[str, Any] = msgspec.json.decode(table.read_bytes())
    models: dict[str, dict[str, Any]] = content["models"]
    models.update(_METADATA)
    for name, model in models.items():
        _complete(models, name, model)
    _write(directory / DATA, write(models), f"{len(models)} models")
    lists = content["discovery"]
    _write(
        directory / resources.DATA,
        resources.write(lists),
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
