"""The descriptions of fields are those of kubernetes_asyncio."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller_manager.devcluster.schema.models import built_in
from controller_manager.devcluster.server.openapi.descriptions import (
    field_descriptions,
)

START_AND_STOP = """
import sys
from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.devcluster.testing.calls import Caller
with DevelopmentCluster(ClusterSettings(nodes=1, controllers=())) as cluster:
    caller = Caller(cluster.kubeconfig)
    caller.add("ConfigMap", "/api/v1/namespaces/default/configmaps", "a")
print(sorted(each for each in sys.modules if each.startswith("kubernetes_asyncio.")))
"""


def class_names(model: str) -> list[str]:
    """Return the names that the class of a model may have."""
    package, _, kind = model.rpartition(".")
    group, _, version = package.rpartition(".")
    name = f"{version.capitalize()}{kind}"
    return [f"{group.rpartition('.')[2].capitalize()}{name}", name]


def described(model: Any, attribute: str) -> str:
    paragraphs = (getattr(model, attribute).__doc__ or "").split("\n\n")
    text = paragraphs[1] if len(paragraphs) > 2 else ""
    return " ".join(text.replace("# noqa: E501", "").split())


def test_all_descriptions_are_those_of_the_package() -> None:
    """The classes of the package, as Python imports them, say the same."""
    from kubernetes_asyncio.client import models  # noqa: PLC0415 - it takes long

    compared = 0
    for name in built_in():
        found = (getattr(models, each, None) for each in class_names(name))
        model = next((each for each in found if each), None)
        expected = {}
        if model is not None:
            compared += 1
            names: dict[str, str] = model.attribute_map
            texts = {names[each]: described(model, each) for each in names}
            expected = {each: text for each, text in texts.items() if text}
        assert field_descriptions(name) == expected, name
    assert compared > 690


def test_an_unknown_model_has_no_descriptions() -> None:
    assert field_descriptions("io.k8s.api.core.v1.Nothing") == {}


@pytest.mark.slow
def test_a_cluster_does_not_import_the_package() -> None:
    """The import takes a fifth of a second, and 38 MB."""
    root = Path(__file__).parents[4]
    output = subprocess.check_output([sys.executable, "-c", START_AND_STOP], cwd=root)
    assert output == b"[]\n"
