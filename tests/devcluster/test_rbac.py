"""Roles decide what a user may do; tokens authenticate users."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.security import Attributes, User
from controller_manager.devcluster.controlplane import MANAGER, bootstrap_objects
from controller_manager.options.gates import FeatureGates, Gate
from controller_manager.registry import registry
from controller_manager.runtime.descriptor import Descriptor
from tests.clusters import TOKEN, Cluster
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

DATA = Path(__file__).parents[1] / "data"

Grants = set[tuple[str, str, str]]


def _recorded(name: str) -> Grants:
    grants: Grants = set()
    for group, resources, verbs in json.loads((DATA / "rbac.json").read_text())[name]:
        groups = (
            ("", "events.k8s.io") if group.startswith("events.k8s.io") else (group,)
        )
        plain = verbs.replace("; get,update on kube-controller-manager only", "")
        grants |= {
            (each, resource, verb.strip())
            for each in groups
            for resource in resources.split(", ")
            for verb in plain.split(",")
        }
    return grants


@pytest.mark.parametrize(
    "descriptor",
    [each for each in registry().descriptors if not each.runs_first],
    ids=lambda each: each.name,
)
async def test_a_controllers_role_is_upstreams(descriptor: Descriptor) -> None:
    """Verb by verb; the development cluster takes it from the descriptor."""
    recorded = _recorded(descriptor.account) | {
        grant
        for gate, _ in descriptor.gated_permissions
        if gate.default
        for grant in _recorded(f"{descriptor.account} with {gate.name}")
    }
    assert recorded == {
        (each.group, each.resource, verb)
        for each in descriptor.permissions_with(FeatureGates())
        for verb in each.verbs
    }
    name = f"system:controller:{descriptor.account}"
    assert recorded == {
        (group, resource, verb)
        for role in bootstrap_objects(registry())
        if role["kind"] in ("ClusterRole", "Role") and role["metadata"]["name"] == name
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(
    "descriptor",
    [each for each in registry().descriptors if each.runs_first],
    ids=lambda each: each.name,
)
async def test_a_controller_that_acts_as_the_manager_needs_no_more_than_it_has(
    descriptor: Descriptor,
) -> None:
    """It has no role and no account of its own."""
    recorded = _recorded("system:kube-controller-manager (the manager's own user)")
    needed = {
        (each.group, each.resource, verb)
        for each in descriptor.permissions
        for verb in each.verbs
    }
    assert needed <= recorded
    names = {each["metadata"]["name"] for each in bootstrap_objects(registry())}
    assert f"system:controller:{descriptor.name}" not in names
    assert "system:controller:" not in names


GATED = [
    (descriptor, gate)
    for descriptor in registry().descriptors
    for gate, _ in descriptor.gated_permissions
]


@pytest.mark.parametrize("is_on", [False, True])
@pytest.mark.parametrize(
    ("descriptor", "gate"), GATED, ids=[gate.name for _, gate in GATED]
)
async def test_a_role_has_some_rights_only_with_a_gate_of_the_server(
    descriptor: Descriptor, gate: Gate, *, is_on: bool
) -> None:
    """As the role for jobs: it is about workloads only where there may be some."""
    cluster = Cluster(rbac=True, features=FeatureGates({gate.name: is_on}))
    user = User(f"system:serviceaccount:kube-system:{descriptor.account}")
    gated = _recorded(f"{descriptor.account} with {gate.name}")
    allowed = {
        (group, resource, verb)
        for group, resource in {grant[:2] for grant in gated}
        for verb in ("create", "get", "list", "watch", "update", "patch", "delete")
        if cluster.server.authorizer.allows(
            user,
            Attributes(
                verb,
                group=group,
                resource=resource.partition("/")[0],
                subresource=resource.partition("/")[2],
            ),
        )
    }
    assert allowed == (gated if is_on else set())


async def test_the_managers_role_is_upstreams() -> None:
    cluster = Cluster(rbac=True)
    user = User(MANAGER)
    allows = cluster.server.authorizer.allows
    recorded = _recorded("system:kube-controller-manager (the manager's own user)")
    for group, resource, verb in recorded:
        plural, _, subresource = resource.partition("/")
        attributes = Attributes(
            verb,
            group=group if group != "*" else "anything.example",
            resource=plural if plural != "*" else "anythings",
            subresource=subresource,
        )
        assert allows(user, attributes), attributes
    for name, allowed in (("kube-controller-manager", True), ("other", False)):
        lease = Attributes(
            "update",
            group="coordination.k8s.io",
            resource="leases",
            namespace="default",
            name=name,
        )
        assert allows(user, lease) is allowed
    assert not allows(user, Attributes("create", resource="pods", namespace="default"))
    assert not allows(user, Attributes("get", path="/metrics"))
    assert allows(User("x"), Attributes("get", path="/healthz"))


async def _ask(cluster: Cluster, method: str, path: str, **headers: str) -> Response:
    answer = await cluster.server.handle(Request(method, path, headers=headers))
    assert isinstance(answer, Response)
    return answer


@rows("method", "path", "message")
async def test_a_request_that_no_role_allows_is_refused(
    method: str, path: str, message: str
) -> None:
    cluster = Cluster(rbac=True)
    cluster.server.tokens.add("jane", User("jane"))
    answer = await _ask(cluster, method, path, authorization="Bearer jane")
    status = json.loads(answer.body)
    assert (answer.status, status["message"]) == (403, message)


async def test_a_service_accounts_token_ends(cluster: Cluster) -> None:
    tokens = cluster.server.tokens
    kind = cluster.server.catalogue.find("", "v1", "serviceaccounts")
    assert kind is not None
    stored = cluster.server.objects.create(kind, "default", {"metadata": {"name": "a"}})
    uid = stored.obj["metadata"]["uid"]
    soon = cluster.clock.now() + timedelta(seconds=10)
    late = cluster.clock.now() + timedelta(days=1)
    short = tokens.issue("default", "a", uid, soon)
    long = tokens.issue("default", "a", uid, late)
    assert tokens.lookup(short)
    await asyncio.sleep(10)
    assert tokens.lookup(short) is None
    user = tokens.lookup(long)
    assert user is not None
    assert user.name == "system:serviceaccount:default:a"
    path = "/api/v1/namespaces/default/serviceaccounts/a"
    await _ask(cluster, "DELETE", path, authorization=f"Bearer {TOKEN}")
    assert tokens.lookup(long) is None
