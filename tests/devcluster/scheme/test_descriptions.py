"""The descriptions of fields are those of kubernetes_asyncio."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from controller_manager.devcluster.scheme.models import (
    DESCRIPTIONS,
    Parts,
    built_in,
    field_descriptions,
)
from tests.devcluster.scheme.__main__ import collect

START_AND_STOP = """
import sys
from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.devcluster.testing.calls import Caller
with DevelopmentCluster(ClusterSettings(nodes=1, controllers=())) as cluster:
    caller = Caller(cluster.kubeconfig)
    caller.add("ConfigMap", "/api/v1/namespaces/default/configmaps", "a")
print(sorted(each for each in sys.modules if each.startswith("kubernetes_asyncio.")))
"""


POD = SimpleNamespace(
    attribute_map={"api_version": "apiVersion", "spec": "spec", "bare": "bare"},
    api_version=property(
        doc="Gets the api_version of this V1Pod.  # noqa: E501\n\n"
        '        The "version" of an object,\n        with a \\d.  # noqa: E501\n\n'
        "        :return: The api_version of this V1Pod.\n"
    ),
    spec=property(
        doc="Gets the spec of this V1Pod.  # noqa: E501\n\n\n"
        "        :return: The spec of this V1Pod.\n"
    ),
    bare=property(),
)
"""A model as the generator of kubernetes_asyncio writes it."""


def test_the_tool_takes_the_texts_of_properties() -> None:
    classes = SimpleNamespace(V1Pod=POD, EventsV1Event=POD)
    names = ["io.k8s.api.core.v1.Pod", "io.k8s.api.events.v1.Event", "io.k8s.a.v1.Odd"]
    decoder = msgspec.json.Decoder(dict[str, str])
    parts = Parts(collect(names, classes), decoder)
    texts = {"apiVersion": 'The "version" of an object, with a \\d.'}
    assert list(parts.index.parts) == ["io.k8s.api.core.v1", "io.k8s.api.events.v1"]
    assert {each: parts.of_model(each) for each in parts.names()} == {
        "io.k8s.api.core.v1.Pod": texts,
        "io.k8s.api.events.v1.Event": texts,
    }


def test_the_file_has_the_descriptions_of_the_package() -> None:
    if not version("kubernetes_asyncio").startswith("36."):
        pytest.skip("another version of kubernetes_asyncio is installed")
    from kubernetes_asyncio.client import models  # noqa: PLC0415 - it takes long

    module = sys.modules[field_descriptions.__module__]
    file = Path(module.__file__ or "").parent / DESCRIPTIONS
    assert file.read_bytes() == collect(built_in(), models)
    assert len([each for each in built_in() if field_descriptions(each)]) > 690


def test_a_field_has_the_text_of_upstream() -> None:
    assert field_descriptions("io.k8s.api.apps.v1.DeploymentSpec")["paused"] == (
        "Indicates that the deployment is paused."
    )


@pytest.mark.parametrize("name", ["io.k8s.api.core.v1.Nothing", "nothing.v1.Nothing"])
def test_an_unknown_model_has_no_descriptions(name: str) -> None:
    assert field_descriptions(name) == {}


@pytest.mark.slow
def test_a_cluster_does_not_import_the_package() -> None:
    root = Path(__file__).parents[3]
    output = subprocess.check_output([sys.executable, "-c", START_AND_STOP], cwd=root)
    assert output == b"[]\n"
