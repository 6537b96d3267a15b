"""Random objects of every model come back unchanged from each encoding.

hypothesis makes the objects from the models, and shows the smallest one that changes.
A failure prints the ``@reproduce_failure`` that plays it again.
"""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds
from controller_manager.devcluster.scheme.decoding import decode_yaml, encode_yaml
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import MEDIA_TYPE, Encoder, decode
from controller_manager.devcluster.scheme.protobuf_decoder import Decoder
from tests.clusters import Cluster
from tests.devcluster.requests import call
from tests.devcluster.scheme.objects import Objects

MODELS = built_in()
PACKAGES: dict[str, list[str]] = {}
for each in sorted(MODELS):
    PACKAGES.setdefault(each.rpartition(".")[0], []).append(each)

QUICK = settings(max_examples=2, deadline=None, print_blob=True)
seeds = st.integers(0, 1 << 32)


def through_json(_: str, value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def through_yaml(_: str, value: Any) -> Any:
    return decode_yaml(encode_yaml(msgspec.json.encode(value)))


def through_protobuf(name: str, value: Any) -> Any:
    return Decoder(MODELS).message(name, Encoder(MODELS).message(name, value))


ENCODINGS: tuple[Callable[[str, Any], Any], ...] = (
    through_json,
    through_yaml,
    through_protobuf,
)


def check(name: str, rng: random.Random) -> None:
    """Compare a value of a model with itself after each encoding."""
    value = Objects(MODELS, rng).of(name)
    for through in ENCODINGS:
        assert through(name, value) == value, (name, through.__name__)


@QUICK
@given(seeds)
@pytest.mark.parametrize("package", PACKAGES)
def test_an_object_of_every_model_is_unchanged(package: str, seed: int) -> None:
    for name in PACKAGES[package]:
        check(name, random.Random(seed))


STORED = [kind for kind in find_kinds() if kind.is_stored and not kind.conversion]


@pytest.mark.looptime
@pytest.mark.parametrize(
    "kind", STORED, ids=lambda kind: f"{kind.resource}-{kind.version}"
)
async def test_a_stored_object_is_the_same_in_every_encoding(
    cluster: Cluster, kind: Kind
) -> None:
    """Of every kind: what the store has is read as JSON, YAML and protobuf."""
    name = MODELS.find(kind.api_version, kind.kind)
    assert name is not None
    root = f"/apis/{kind.group}" if kind.group else "/api"
    scope = "/namespaces/default" if kind.namespaced else ""
    path = f"{root}/{kind.version}{scope}/{kind.plural}/a"
    key = ("default" if kind.namespaced else "", "a")
    for seed in range(5):
        obj = Objects(MODELS, random.Random(seed)).of(name)
        obj["metadata"] |= {"name": key[1], "namespace": key[0]}
        if not kind.namespaced:
            del obj["metadata"]["namespace"]
        stored = cluster.server.objects.put(kind, key, obj).obj
        plain = await call(cluster, "GET", path)
        text = await call(cluster, "GET", path, accept="application/yaml")
        binary = await call(cluster, "GET", path, accept=MEDIA_TYPE)
        wanted = msgspec.json.decode(plain.body)
        assert wanted == stored, seed
        assert decode_yaml(text.body) == wanted, seed
        assert decode(binary.body, MODELS) == wanted, seed
