"""Manifests that the development cluster starts with."""

from pathlib import Path

import pytest

from controller_manager.devcluster.cli.steps import sample_manifests
from controller_manager.devcluster.manifests import (
    ManifestError,
    parted,
    read_manifests,
)
from tests.devcluster.manifests import CONFIG_MAP, DEFINITION, NAMESPACE, POD, WIDGET

BOMB = "\n".join(
    ["a0: &a0 x"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "m.yaml, line 1: not valid YAML"),
        ("- " * 10_000, "m.yaml, line 1: not valid YAML: exceeded max depth"),
        ("[" * 10_000, "m.yaml: not valid YAML: exceeded max depth"),
        (BOMB, "m.yaml, line 19: not valid YAML: document contains excessive aliasing"),
        (
            "- a",
            (
                "manifest m.yaml, document 1: must be an object with apiVersion and "
                "kind, it is a list"
            ),
        ),
        (
            "---\n---\nhello",
            (
                "manifest m.yaml, document 2: must be an object with apiVersion and "
                "kind, it is the value 'hello'"
            ),
        ),
        ("", "manifest m.yaml: has no object in it"),
        ("null", "manifest m.yaml: has no object in it"),
        ("# nothing\n---\n", "manifest m.yaml: has no object in it"),
        (
            "{}",
            (
                "manifest m.yaml, document 1: apiVersion is missing, every object "
                "must have one"
            ),
        ),
        (
            "apiVersion: v1",
            "manifest m.yaml, document 1: kind is missing, every object must have one",
        ),
        (
            "{apiVersion: v1, kind: 5}",
            "manifest m.yaml, document 1: kind must be a string, it is 5",
        ),
        ("kind: Thing\napiVersion: x/v1", "has no kind Thing in version x/v1"),
        ("kind: Pod\napiVersion: v1", "document 1: Pod has no metadata.name"),
    ],
)
def test_a_manifest_that_cannot_be_applied_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        read_manifests([file])
    assert message in str(caught.value)


def test_definitions_come_before_their_objects_and_pods_after_the_controllers(
    tmp_path: Path,
) -> None:
    """Whichever file they are in; all others keep their order."""
    (tmp_path / "a.yaml").write_text(f"{WIDGET}---\n{POD}---\n{CONFIG_MAP}")
    (tmp_path / "b.yaml").write_text(f"{DEFINITION}---\n{NAMESPACE}")
    before, after = parted(read_manifests([tmp_path]))
    assert [each.path for each in before] == [
        "/api/v1/namespaces",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/example.com/v1/namespaces/team/widgets",
        "/api/v1/namespaces/team/configmaps",
    ]
    assert [each.path for each in after] == ["/api/v1/namespaces/team/pods"]


@pytest.mark.parametrize(
    "spec", ["5", "{names: 5}", "{versions: [5]}", "{versions: 5}"]
)
def test_the_api_server_judges_a_wrong_definition(tmp_path: Path, spec: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(DEFINITION.partition("spec:")[0] + f"spec: {spec}")
    (manifest,) = read_manifests([file])
    assert manifest.kind.kind == "CustomResourceDefinition"


def test_the_samples_are_real_manifests() -> None:
    kinds = [manifest.kind.kind for manifest in sample_manifests()]
    assert kinds == [
        *("Namespace", "Service", "Deployment", "ConfigMap", "Deployment"),
        *("Deployment", "Service", "StatefulSet", "DaemonSet", "Job", "CronJob"),
    ]
