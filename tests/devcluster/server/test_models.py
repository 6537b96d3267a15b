"""The models of kubernetes_asyncio are read as Python imports them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller_manager.devcluster.server.models import field_texts, model_fields

START_AND_STOP = """
import sys
from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.devcluster.testing.calls import Caller
with DevelopmentCluster(ClusterSettings(nodes=1, controllers=())) as cluster:
    caller = Caller(cluster.kubeconfig)
    caller.add("ConfigMap", "/api/v1/namespaces/default/configmaps", "a")
print(sorted(each for each in sys.modules if each.startswith("kubernetes_asyncio.")))
"""


def described(model: Any, attribute: str) -> str:
    paragraphs = (getattr(model, attribute).__doc__ or "").split("\n\n")
    text = paragraphs[1] if len(paragraphs) > 2 else ""
    return " ".join(text.replace("# noqa: E501", "").split())


def test_all_models_are_the_same() -> None:
    """Fields in their order, their names and types, and their descriptions."""
    from kubernetes_asyncio.client import models  # noqa: PLC0415 - it takes long

    known: dict[str, Any] = {
        name: each for name, each in vars(models).items() if isinstance(each, type)
    }
    assert len(known) > 700
    for name, model in known.items():
        expected = [
            (attribute, model.attribute_map[attribute], text)
            for attribute, text in model.openapi_types.items()
        ]
        assert [tuple(each) for each in model_fields(name) or ()] == expected
        assert field_texts(name) == {
            attribute: described(model, attribute) for attribute in model.openapi_types
        }


def test_there_is_no_other_model() -> None:
    assert model_fields("V1Nothing") is None
    assert field_texts("V1Nothing") == {}


@pytest.mark.slow
def test_a_cluster_does_not_import_the_package() -> None:
    """The import takes a fifth of a second, and 38 MB."""
    root = Path(__file__).parents[3]
    output = subprocess.check_output([sys.executable, "-c", START_AND_STOP], cwd=root)
    assert output == b"[]\n"
