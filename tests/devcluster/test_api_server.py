"""The API server of the development cluster, beyond the recorded transcript."""

import asyncio
import json
import random
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.client.errors import Forbidden, NotFound
from controller_manager.client.transport import Request, Response
from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import (
    ClusterOptions,
    DevCluster,
    KubeconfigError,
    check_kubeconfig,
)
from controller_manager.devcluster.demo import sample_manifests
from controller_manager.devcluster.kinds import KINDS, Kind
from controller_manager.devcluster.manifests import ManifestError, read_manifests
from controller_manager.devcluster.nodes import _fits
from controller_manager.devcluster.patch import (
    PatchError,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from controller_manager.devcluster.protobuf import (
    MAGIC,
    ProtobufError,
    decode_protobuf,
    write_bytes,
    write_text,
    write_varint,
)
from controller_manager.devcluster.quantity import format_quantity, parse_quantity
from controller_manager.devcluster.schema import Checker, TypeMismatch, fields_of
from controller_manager.devcluster.storage import Storage, TooOldError
from controller_manager.devcluster.tables import human_duration
from tests.clusters import TOKEN, Cluster
from tests.controllers.builders import JSON, deployment_json, template

# Patches


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1}, {"a": None, "b": {"c": None, "d": 2}}, {"b": {"d": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
    ],
)
def test_a_merge_patch_removes_by_null(target: JSON, patch: JSON, result: JSON) -> None:
    """RFC 7386."""
    assert merge_patch(target, patch) == result


values = st.recursive(
    st.integers(0, 3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(target=st.dictionaries(st.sampled_from("abc"), values), patch=values)
def test_a_merge_patch_applied_twice_is_applied_once(target: JSON, patch: Any) -> None:
    """It says how things are to be, not how to change them."""
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        (
            [{"op": "add", "path": "/l/0", "value": 0}],
            {"l": [0, 1, 2], "m": {"x/y": 1}},
        ),
        (
            [{"op": "add", "path": "/l/-", "value": 3}],
            {"l": [1, 2, 3], "m": {"x/y": 1}},
        ),
        ([{"op": "remove", "path": "/l/1"}], {"l": [1], "m": {"x/y": 1}}),
        (
            [{"op": "replace", "path": "/m/x~1y", "value": 9}],
            {"l": [1, 2], "m": {"x/y": 9}},
        ),
        (
            [{"op": "move", "from": "/m/x~1y", "path": "/n"}],
            {"l": [1, 2], "m": {}, "n": 1},
        ),
        (
            [{"op": "copy", "from": "/l", "path": "/n"}],
            {"l": [1, 2], "m": {"x/y": 1}, "n": [1, 2]},
        ),
        ([{"op": "test", "path": "/l/0", "value": 1}], {"l": [1, 2], "m": {"x/y": 1}}),
    ],
)
def test_a_json_patch_does_what_its_operations_say(
    operations: list[JSON], result: JSON
) -> None:
    """RFC 6902; the target itself stays as it was."""
    target = {"l": [1, 2], "m": {"x/y": 1}}
    assert json_patch(target, operations) == result
    assert target == {"l": [1, 2], "m": {"x/y": 1}}


@pytest.mark.parametrize(
    "operations",
    [
        {},
        [{}],
        [{"op": "fly", "path": "/a"}],
        [{"op": "remove", "path": "/absent"}],
        [{"op": "remove", "path": "/a/b/c"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": 5, "value": 1}],
        [{"op": "add", "path": "/l/7", "value": 1}],
        [{"op": "test", "path": "/a", "value": 2}],
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_refused(operations: Any) -> None:
    """As a whole: nothing of it is done."""
    with pytest.raises(PatchError):
        json_patch({"a": 1, "l": []}, operations)


def test_a_strategic_patch_merges_lists_by_their_key() -> None:
    """New items first, others where they were; directives are obeyed."""
    target = {
        "containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]},
            {"name": "b", "image": "b:1"},
        ],
        "tolerations": [{"key": "t"}],
        "finalizers": ["one", "two"],
    }
    patch = {
        "containers": [
            {"name": "b", "$patch": "delete"},
            {"name": "a", "env": [{"name": "Y", "value": "2"}]},
            {"name": "c", "image": "c:1"},
        ],
        "tolerations": [{"key": "u"}],
        "finalizers": ["three"],
        "$deleteFromPrimitiveList/finalizers": ["one"],
    }
    assert strategic_merge_patch(target, patch) == {
        "containers": [
            {
                "name": "a",
                "image": "a:1",
                "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}],
            },
            {"name": "c", "image": "c:1"},
        ],
        "tolerations": [{"key": "u"}],
        "finalizers": ["three", "two"],
    }


def test_an_order_puts_items_where_it_says() -> None:
    """What it does not name stays where the server had it."""
    target = {"containers": [{"name": n} for n in "abcd"]}
    patch = {
        "$setElementOrder/containers": [{"name": "d"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "x"}],
    }
    merged = strategic_merge_patch(target, patch)
    names = [each["name"] for each in merged["containers"]]
    assert sorted(names) == ["a", "b", "c", "d"]
    assert names.index("d") < names.index("a")


def test_of_two_ports_with_one_number_neither_is_lost() -> None:
    """53/TCP and 53/UDP are two, though their merge key is the same."""
    ports = [{"containerPort": 53, "protocol": each} for each in ("UDP", "TCP")]
    target = {"containers": [{"name": "c", "ports": [{"containerPort": 80}, *ports]}]}
    removed = {"containerPort": 80, "$patch": "delete"}
    patch = {"containers": [{"name": "c", "ports": [removed]}]}
    merged = strategic_merge_patch(target, patch)
    assert merged["containers"][0]["ports"] == ports


@pytest.mark.parametrize(
    "patch",
    [
        [],
        {"containers": ["x"]},
        {"containers": [{"image": "x"}]},
        {"$patch": "sideways"},
        {"$retainKeys": 5, "a": 1},
        {"containers": [], "$setElementOrder/containers": ["x"]},
    ],
)
def test_a_strategic_patch_that_does_not_fit_is_refused(patch: Any) -> None:
    """By an error that becomes a 422."""
    with pytest.raises(PatchError):
        strategic_merge_patch({"containers": [{"name": "a"}]}, patch)


# Types


def test_every_kind_has_its_model() -> None:
    """A new resource is a table row whose model exists."""
    assert [kind.kind for kind in KINDS if fields_of(kind.model) is None] == []


def test_unknown_fields_are_named_and_empty_ones_dropped() -> None:
    """As Go would store the object."""
    checker = Checker()
    obj = deployment_json(paused=False, minReadySeconds=0, bogus=1)
    obj["spec"]["template"]["spec"]["containers"][0].update(
        {"env": [], "imagee": "x", "resources": {"limits": {"cpu": 1}}}
    )
    obj["metadata"]["labels"] = None
    checked = checker.check(obj, "V1Deployment")
    assert checker.unknown == [
        "spec.template.spec.containers[0].imagee",
        "spec.bogus",
    ]
    (container,) = checked["spec"]["template"]["spec"]["containers"]
    assert container == {
        "name": "c",
        "image": "app:v1",
        "resources": {"limits": {"cpu": "1"}},
    }
    assert {"paused", "minReadySeconds"} & checked["spec"].keys() == set()
    assert "labels" not in checked["metadata"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"replicas": "3"},
            (
                "cannot unmarshal string into Go struct field "
                "DeploymentSpec.spec.replicas of type int32"
            ),
        ),
        ({"replicas": 2**31}, "cannot unmarshal number"),
        ({"paused": "yes"}, "DeploymentSpec.spec.paused of type bool"),
        ({"selector": []}, "cannot unmarshal array"),
        (
            {"template": {"spec": {"containers": {}}}},
            "PodSpec.spec.template.spec.containers of type []V1Container",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_named_as_go_does(spec: JSON, message: str) -> None:
    """With the struct, the path and the type that is wanted."""
    with pytest.raises(TypeMismatch) as caught:
        Checker().check({"spec": spec}, "V1Deployment")
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["garbage", "2026-01-01", "12:00", ""])
def test_a_time_must_be_one(text: str) -> None:
    """Or no reader could make sense of it later."""
    with pytest.raises(TypeMismatch):
        Checker().check({"lastTimestamp": text}, "CoreV1Event")


# Storage


def test_history_can_be_read_back() -> None:
    """The state at any version that is remembered."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    storage = Storage(history=1000)
    pods = storage.collection("pods")
    states: dict[int, dict[tuple[str, str], Any]] = {storage.version: {}}
    for step in range(200):
        name = rng.choice("abcde")
        key = ("n", name)
        if pods.get(key) is not None and rng.random() < 0.3:
            pods.remove(key)
        else:
            pods.put(key, {"metadata": {"name": name}, "step": step})
        states[storage.version] = {k: v.obj for k, v in pods.snapshot().items()}
    for version, state in states.items():
        found = {k: v.obj for k, v in pods.snapshot(version).items()}
        assert found == state, seed


def test_what_is_forgotten_cannot_be_watched() -> None:
    """Nor listed."""
    storage = Storage(history=3)
    pods = storage.collection("pods")
    for number in range(10):
        pods.put(("n", "a"), {"metadata": {"name": "a"}, "n": number})
    with pytest.raises(TooOldError):
        pods.watch(2)
    with pytest.raises(TooOldError):
        pods.snapshot(2)
    watcher = pods.watch(storage.version - 2)
    assert [change.after.obj["n"] for change in watcher.take()] == [8, 9]


# Quantities, durations, protobuf


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", Fraction(1)),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("2e3", Fraction(2000)),
        ("5k", Fraction(5000)),
    ],
)
def test_a_quantity_is_an_exact_amount(text: str, amount: Fraction) -> None:
    """No rounding."""
    assert parse_quantity(text) == amount
    assert parse_quantity(format_quantity(amount)) == amount


@pytest.mark.parametrize("text", ["", "x", "1Q", "1 Gi", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """With the pattern."""
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (49 * 3600, "2d1h"),
        (400 * 86400, "400d"),
        (3 * 365 * 86400, "3y"),
    ],
)
def test_an_age_is_shown_as_kubectl_does(seconds: float, text: str) -> None:
    """Two units at most."""
    assert human_duration(seconds) == text


def _enveloped(kind: str, message: bytes) -> bytes:
    meta = write_text(1, "v1") + write_text(2, kind)
    return MAGIC + write_bytes(1, meta) + write_bytes(2, message)


def test_protobuf_becomes_what_json_would_be() -> None:
    """Strings, numbers, maps, bytes, quantities."""
    entry = write_text(1, "k") + write_text(2, "v")
    metadata = write_text(1, "c") + write_bytes(11, entry)
    message = write_bytes(1, metadata) + write_bytes(2, entry)
    assert decode_protobuf(_enveloped("ConfigMap", message)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"k": "v"}},
        "data": {"k": "v"},
    }
    spec = write_varint(1 << 3) + write_varint(2**64 - 5)
    decoded = decode_protobuf(_enveloped("Deployment", write_bytes(2, spec)))
    assert decoded["spec"] == {"replicas": -5}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        MAGIC + b"\x0a\xff",
        _enveloped("Unheard", b"\x0a\x00"),
        _enveloped("ConfigMap", write_bytes(99, b"x")),
    ],
)
def test_protobuf_that_is_not_understood_is_refused(body: bytes) -> None:
    """Never stored with a part missing."""
    with pytest.raises(ProtobufError):
        decode_protobuf(body)


# Manifests


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "m.yaml, line 1: not valid YAML"),
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
    """With file, document or line."""
    file = tmp_path / "m.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        read_manifests([file])
    assert message in str(caught.value)


def test_the_samples_are_real_manifests() -> None:
    """Several deployments among them."""
    kinds = [manifest.kind.kind for manifest in sample_manifests()]
    assert kinds[0] == "Namespace"
    assert kinds.count("Deployment") == 3


# The server as a whole


async def call(
    cluster: Cluster, method: str, path: str, body: bytes = b"", **headers: str
) -> Response:
    path, _, query = path.partition("?")
    pairs = tuple(
        (name, value)
        for name, _, value in (each.partition("=") for each in query.split("&"))
        if name
    )
    names = {key.replace("_", "-"): value for key, value in headers.items()}
    request = Request(
        method,
        path,
        query=pairs,
        headers={"authorization": f"Bearer {TOKEN}", **names},
        body=body or None,
    )
    answer = await cluster.server.handle(request)
    assert isinstance(answer, Response)
    return answer


PODS_PATH = "/api/v1/namespaces/default/pods"
WEB = "/apis/apps/v1/namespaces/default/deployments/web"


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", f"{PODS_PATH}?limit=abc", b"", 400),
        ("GET", f"{PODS_PATH}?watch=1&timeoutSeconds=x", b"", 400),
        ("DELETE", WEB, b'{"gracePeriodSeconds":"x"}', 400),
        ("DELETE", WEB, b'{"preconditions":[1]}', 400),
        ("DELETE", WEB, b"[]", 400),
        ("DELETE", f"{WEB}?dryRun=Maybe", b"", 422),
        ("PUT", f"{WEB}/scale", b"[]", 400),
        ("PUT", f"{WEB}/scale", b'{"metadata":{},"spec":{"replicas":true}}', 400),
        ("PUT", f"{WEB}/scale", b'{"metadata":{},"spec":{"replicas":3000000000}}', 400),
        ("POST", f"{PODS_PATH}/x/binding", b'{"target":null}', 404),
        ("POST", f"{PODS_PATH}/x/exec", b"{}", 501),
        ("POST", PODS_PATH, b"\xff\xfe", 400),
        ("POST", PODS_PATH, b"[" * 100_000, 400),
        ("PUT", WEB, b'{"metadata":5}', 400),
        ("POST", WEB, b"{}", 405),
        ("PATCH", PODS_PATH, b"{}", 405),
        ("GET", "/apis/apps/v1/deployments/web", b"", 404),
        ("GET", "/nowhere", b"", 404),
    ],
)
async def test_strange_requests_get_an_answer(
    cluster: Cluster, method: str, path: str, body: bytes, code: int
) -> None:
    """One that says what is wrong, and nothing stored is lost."""
    web = json.dumps(deployment_json()).encode()
    await call(cluster, "POST", WEB.rpartition("/")[0], web)
    before = (await call(cluster, "GET", WEB)).body
    answer = await call(cluster, method, path, body)
    assert answer.status == code, answer.body
    assert answer.body
    assert (await call(cluster, "GET", WEB)).body == before


@pytest.mark.looptime
async def test_a_dry_run_changes_nothing(cluster: Cluster) -> None:
    """In whatever way it is asked for."""
    web = json.dumps(deployment_json()).encode()
    await call(cluster, "POST", WEB.rpartition("/")[0], web)
    version = cluster.server.storage.version
    dry = b'{"dryRun":["All"]}'
    for method, path, body in (
        ("DELETE", WEB, dry),
        ("DELETE", WEB.rpartition("/")[0], dry),
        ("DELETE", f"{WEB}?dryRun=All", b""),
        ("PUT", f"{WEB}?dryRun=All", web.replace(b"app:v1", b"app:v2")),
    ):
        answer = await call(cluster, method, path, body)
        assert answer.status == 200
    assert cluster.server.storage.version == version


@pytest.mark.looptime
async def test_unknown_fields_are_warned_of_or_refused(cluster: Cluster) -> None:
    """As fieldValidation says; the default is to warn."""
    body = json.dumps(deployment_json(bogus=1)).encode()
    path = WEB.rpartition("/")[0]
    warned = await call(cluster, "POST", f"{path}?dryRun=All", body)
    assert warned.headers["warning"] == '299 - "unknown field \\"spec.bogus\\""'
    ignored = await call(
        cluster, "POST", f"{path}?dryRun=All&fieldValidation=Ignore", body
    )
    assert "warning" not in ignored.headers
    strict = await call(cluster, "POST", f"{path}?fieldValidation=Strict", body)
    assert strict.status == 400


@pytest.mark.looptime
async def test_only_who_has_a_token_gets_in(cluster: Cluster) -> None:
    """But for the probes and the version."""
    for path, code in (("/healthz", 200), ("/version", 200), (PODS_PATH, 403)):
        answer = await cluster.server.handle(Request("GET", path))
        assert isinstance(answer, Response)
        assert answer.status == code


@pytest.mark.looptime
async def test_a_defect_is_a_500_and_the_server_goes_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a Status that says so."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(cluster.server.objects, "find", fail)
        broken = await call(cluster, "GET", WEB)
    assert (broken.status, json.loads(broken.body)["reason"]) == (500, "InternalError")
    assert (await call(cluster, "GET", WEB)).status == 404


@pytest.mark.looptime
async def test_server_side_apply_is_refused_clearly(cluster: Cluster) -> None:
    """Rather than half done."""
    answer = await call(
        cluster, "PATCH", WEB, b"{}", content_type="application/apply-patch+yaml"
    )
    assert answer.status == 415
    assert b"server-side apply is not supported" in answer.body


@pytest.mark.looptime
async def test_openapi_describes_what_kubectl_asks_for(cluster: Cluster) -> None:
    """Types, descriptions, merge keys, and that the server validates fields."""
    index = json.loads((await call(cluster, "GET", "/openapi/v3")).body)
    assert "apis/apps/v1" in index["paths"]
    apps = json.loads((await call(cluster, "GET", "/openapi/v3/apis/apps/v1")).body)
    schemas = apps["components"]["schemas"]
    replicas = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]
    assert replicas["type"] == "integer"
    assert "Number of desired pods" in replicas["description"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    patch = apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    parameters = [each["name"] for each in patch["patch"]["parameters"]]
    assert "fieldValidation" in parameters
    unresolved = {
        reference
        for reference in _references(apps)
        if reference.rpartition("/")[2] not in schemas
    }
    assert unresolved == set()
    v2 = await call(cluster, "GET", "/openapi/v2", accept="application/x-protobuf")
    assert v2.headers["content-type"].endswith("+protobuf")
    assert b"io.k8s.api.apps.v1.Deployment" in v2.body


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for inner in value.values() for each in _references(inner)]
    if isinstance(value, list):
        return [each for inner in value for each in _references(inner)]
    return []


@pytest.mark.looptime
async def test_a_new_resource_is_a_row(cluster: Cluster) -> None:
    """Stored, listed, watched and shown without another line of code."""
    cluster.server.catalogue.add(Kind("example.com", "v1", "Widget", "widgets"))
    path = "/apis/example.com/v1/namespaces/default/widgets"
    body = b'{"metadata":{"name":"w"},"spec":{"any":{"thing":[1]}}}'
    assert (await call(cluster, "POST", path, body)).status == 201
    listed = json.loads((await call(cluster, "GET", path)).body)
    assert listed["kind"] == "WidgetList"
    assert listed["items"][0]["spec"] == {"any": {"thing": [1]}}
    resources = json.loads((await call(cluster, "GET", "/apis/example.com/v1")).body)
    assert [each["name"] for each in resources["resources"]] == ["widgets"]


@pytest.mark.looptime
async def test_a_quota_limits_cpu_as_well_as_pods(cluster: Cluster) -> None:
    """And its status counts what there is."""
    kind = cluster.server.catalogue.find("", "v1", "resourcequotas")
    assert kind is not None
    hard = {"pods": "5", "requests.cpu": "250m"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    cluster.server.objects.create(kind, "default", quota)
    pod = {"metadata": {"generateName": "p-"}, "spec": template()["spec"]}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    body = msgspec.json.encode(pod)
    for _ in range(2):
        await cluster.client.create_json(PODS, "default", body)
    with pytest.raises(Forbidden) as caught:
        await cluster.client.create_json(PODS, "default", body)
    assert str(caught.value).endswith(
        "is forbidden: exceeded quota: q, requested: requests.cpu=100m, "
        "used: requests.cpu=200m, limited: requests.cpu=250m"
    )
    stored = cluster.server.objects.find(kind, "default", "q").obj
    assert stored["status"]["used"] == {"pods": "2", "requests.cpu": "200m"}


# Nodes


async def create_pod(cluster: Cluster, name: str, image: str = "app:v1") -> None:
    pod = {"metadata": {"name": name}, "spec": template(image)["spec"]}
    await cluster.client.create_json(PODS, "default", msgspec.json.encode(pod))


@pytest.mark.looptime
async def test_pods_start_after_their_delay_and_end_after_their_grace(
    cluster: Cluster,
) -> None:
    """On nodes in turn; broken images never start."""
    async with cluster.nodes(count=2, start_delay=3, grace_scale=0.5):
        for name, image in (("a", "app"), ("b", "example.com/x/broken:v1"), ("c", "x")):
            await create_pod(cluster, name, image)
        await asyncio.sleep(2.9)
        page = await cluster.client.list_page(PODS)
        assert [each.spec.node_name for each in page.items] == [
            "node-0",
            "node-1",
            "node-0",
        ]
        assert {each.status.phase for each in page.items} == {"Pending"}
        await asyncio.sleep(0.2)
        page = await cluster.client.list_page(PODS)
        assert [each.status.phase for each in page.items] == [
            "Running",
            "Pending",
            "Running",
        ]
        await cluster.client.delete(PODS, "default", "a")
        # A deletionTimestamp is cut to whole seconds, so up to one is lost.
        await asyncio.sleep(13.9)
        assert await cluster.client.get(PODS, "default", "a")
        await asyncio.sleep(1.2)
        with pytest.raises(NotFound):
            await cluster.client.get(PODS, "default", "a")


@pytest.mark.looptime
async def test_pods_wait_for_a_node_that_takes_them(cluster: Cluster) -> None:
    """Neither cordoned nor tainted, unless the taint is tolerated."""
    tainted = {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}

    async def patch_node(name: str, spec: dict[str, Any]) -> None:
        answer = await call(
            cluster,
            "PATCH",
            f"/api/v1/nodes/{name}",
            msgspec.json.encode({"spec": spec}),
            content_type="application/merge-patch+json",
        )
        assert answer.status == 200

    async def node_of(name: str) -> str:
        pod = await cluster.client.get(PODS, "default", name)
        return pod.spec.node_name

    async with cluster.nodes(count=2):
        await patch_node("node-0", {"unschedulable": True})
        await patch_node("node-1", tainted)
        await create_pod(cluster, "waiting")
        body = {
            "metadata": {"name": "tolerant"},
            "spec": {
                "containers": [{"name": "c", "image": "x"}],
                "tolerations": [
                    {"key": "other", "operator": "Exists"},
                    {"key": "a", "value": "b"},
                ],
            },
        }
        await cluster.client.create_json(PODS, "default", msgspec.json.encode(body))
        await asyncio.sleep(10)
        assert (await node_of("waiting"), await node_of("tolerant")) == ("", "node-1")
        await patch_node("node-0", {"unschedulable": None})
        await asyncio.sleep(10)
        assert await node_of("waiting") == "node-0"


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "operator": "Equal", "value": "b"}, True),
        ({"key": "a", "value": "b", "effect": "NoExecute"}, False),
        ({"key": "a", "value": "c"}, False),
        ({"key": "c", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_matches_by_key_value_and_effect(
    toleration: dict[str, str], *, fits: bool
) -> None:
    """As a scheduler compares them."""
    node = {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    assert _fits({"spec": {"tolerations": [toleration]}}, node) is fits


def test_a_kubeconfig_of_somebody_is_left_alone(tmp_path: Path) -> None:
    """Only an empty file, or one of an earlier cluster, is replaced."""
    path = tmp_path / "config"
    check_kubeconfig(path)
    path.touch()
    DevCluster(ClusterOptions(), SystemClock()).write_kubeconfig(path)
    check_kubeconfig(path)
    path.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(KubeconfigError) as caught:
        check_kubeconfig(path)
    assert str(caught.value) == (
        f"--write-kubeconfig {path}: the file exists and is not a development "
        "cluster's; name another, or remove it"
    )
    nowhere = tmp_path / "absent" / "config"
    with pytest.raises(KubeconfigError, match="there is no directory"):
        check_kubeconfig(nowhere)


@pytest.mark.looptime
async def test_without_nodes_pods_stay_pending(cluster: Cluster) -> None:
    """As on a cluster whose nodes are all gone."""
    async with cluster.nodes(count=0):
        await create_pod(cluster, "a")
        await asyncio.sleep(100)
        pod = await cluster.client.get(PODS, "default", "a")
        assert (pod.spec.node_name, pod.status.phase) == ("", "Pending")


@pytest.mark.looptime
async def test_events_go_after_an_hour(cluster: Cluster) -> None:
    """As an API server's time to live has it."""
    body = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    async with cluster.nodes():
        await cluster.client.create_json(EVENTS, "default", msgspec.json.encode(body))
        await asyncio.sleep(timedelta(minutes=59).total_seconds())
        assert len((await cluster.client.list_page(EVENTS)).items) == 1
        await asyncio.sleep(timedelta(minutes=3).total_seconds())
        assert (await cluster.client.list_page(EVENTS)).items == []


@pytest.mark.looptime
async def test_a_subresource_that_is_not_served_says_so(cluster: Cluster) -> None:
    """It is in discovery, as on a real cluster, but there are no containers."""
    await create_pod(cluster, "a")
    answer = await cluster.client.raw("GET", PODS.path("default", "a", "log"))
    assert (answer.status, b"pods/log is not served" in answer.body) == (501, True)
