"""The types of the API as data."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from controller_manager.devcluster.scheme.models import (
    Field,
    Models,
    Type,
    built_in,
)
from tests.devcluster.scheme.__main__ import main, write

MODELS = built_in()
CORE = "io.k8s.api.core.v1."


def test_every_reference_leads_to_a_model() -> None:

    def references(of: Type | None) -> set[str]:
        if of is None:
            return set()
        return {of.ref} | references(of.items) | references(of.values)

    fields = [each for name in MODELS for each in MODELS.model(name).fields.values()]
    assert len(fields) > 2500
    found = set().union(*map(references, fields)) - {""}
    assert found - set(MODELS) == set()


def test_no_two_fields_of_a_message_have_one_number() -> None:
    for name in MODELS:
        model = MODELS.model(name)
        numbered = [each for each in model.fields.values() if each.number]
        assert len(model.by_number) == len(numbered), name


def test_every_field_of_a_kind_has_a_number() -> None:
    """Only the document /version has none: it is JSON always."""
    without = {
        name
        for name in MODELS
        for field, each in MODELS.model(name).fields.items()
        if not each.number and field not in ("apiVersion", "kind")
    }
    assert without == {"io.k8s.apimachinery.pkg.version.Info"}


def test_a_field_tells_all_that_the_api_declares() -> None:
    assert MODELS.model(f"{CORE}Container").fields["ports"] == Field(
        type="array",
        items=Type(ref=f"{CORE}ContainerPort"),
        proto=(6, "bytes", "rep"),
        omitempty=True,
        list_type="map",
        list_map_keys=("containerPort", "protocol"),
        patch_strategy="merge",
        patch_merge_key="containerPort",
    )


def test_a_package_is_decoded_when_it_is_needed() -> None:
    """A broken part of the file hurts its own package only."""
    data = write({"a.v1.One": {"type": "object"}, "b.v1.Two": {"type": "object"}})
    index = Models(data)._parts.index
    first = data.index(b"\n") + 1 + index.parts["b.v1"][0]
    models = Models(data[:first] + b"\0" * (len(data) - first))
    assert models.model("a.v1.One").type == "object"


def test_a_model_is_decoded_when_it_is_needed() -> None:
    data = write({"a.v1.One": {"type": "object"}, "a.v1.Two": {"type": 2}})
    models = Models(data)
    assert list(models) == ["a.v1.One", "a.v1.Two"]
    assert models.model("a.v1.One").type == "object"
    with pytest.raises(msgspec.ValidationError):
        models.model("a.v1.Two")


def test_kinds_lead_to_models() -> None:
    assert MODELS.find("v1", "Pod") == f"{CORE}Pod"
    assert MODELS.find("apps/v1", "DeleteOptions") == MODELS.find("v1", "DeleteOptions")
    assert MODELS.find("example.com/v1", "Tree") is None


def test_the_tool_writes_the_file_of_a_table(tmp_path: Path) -> None:
    one = {"proto": [1, "bytes"], "type": "string"}
    other = {"proto": [7, "bytes"], "type": "string"}
    kind = [{"group": "g", "version": "v1", "kind": "A"}]
    table = {
        "x.v1.A": {"fields": {"kind": one, "a": one}, "group-version-kind": kind},
        "x.v1beta1.A": {"fields": {"a": {"type": "string"}}},
        "x.v1alpha1.A": {"fields": {"a": other}},
    }
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"models": table, "discovery": []}))
    out = tmp_path / "models.data"
    result = CliRunner().invoke(main, [str(path), f"--directory={tmp_path}"])
    names = ("models", "descriptions", "resources")
    sizes = [(tmp_path / f"{each}.data").stat().st_size for each in names]
    assert result.output == (
        f"models.data: 12 models in {sizes[0]} bytes\n"
        f"descriptions.data: the descriptions of fields in {sizes[1]} bytes\n"
        f"resources.data: the resources of 0 group versions in {sizes[2]} bytes\n"
    )
    models = Models(out.read_bytes())
    found = {
        name: {field: each.number for field, each in models.model(name).fields.items()}
        for name in models
        if name.startswith("x.")
    }
    assert found == {
        "x.v1.A": {"kind": 0, "a": 1},
        "x.v1beta1.A": {"a": 1},
        "x.v1alpha1.A": {"a": 7},
    }
    assert models.find("g/v1", "A") == "x.v1.A"
