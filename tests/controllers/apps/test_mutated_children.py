"""Admission that changes each new child of an owner causes no storm of children."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFUL_SETS,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.builders import (
    daemon_set_json,
    deployment_json,
    replica_set_json,
)
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime

PINNED = "registry.example/app@sha256:0"
CONTAINER = "/spec/template/spec/containers/0"
OF_REVISION = "/data/spec/template/spec/containers/0"


def patch(op: str, path: str, value: str) -> JSON:
    expression = f"[JSONPatch{{op: {op!r}, path: {path!r}, value: {value}}}]"
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(resource: str, mutation: JSON, name: str = "pin") -> list[tuple[str, JSON]]:
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [resource],
    }
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [mutation],
    }
    binding = {"policyName": name}
    return [
        ("MutatingAdmissionPolicy", {"metadata": {"name": name}, "spec": spec}),
        (
            "MutatingAdmissionPolicyBinding",
            {"metadata": {"name": name}, "spec": binding},
        ),
    ]


PIN = patch("replace", f"{CONTAINER}/image", f"'{PINNED}'")


@asynccontextmanager
async def running(
    cluster: Cluster, resource: str, mutation: JSON, controller: str
) -> AsyncGenerator[RecordingTransport, None]:
    for kind, body in policy(resource, mutation):
        cluster.add(kind, body["metadata"]["name"], API, spec=body["spec"])
    config = make_config(
        controllers=(f"{controller}-controller", "replicaset-controller")
    )
    async with cluster.nodes(), cluster.manager(config) as recording:
        await settle(5)
        yield recording


API = "admissionregistration.k8s.io/v1"


async def end_mutation(cluster: Cluster) -> None:
    for plural in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        path = f"/apis/{API}/{plural}/pin"
        answer = await cluster.transport.request(Request("DELETE", path))
        assert answer.status == 200, answer.body


def posts(recording: RecordingTransport, plural: str) -> int:
    """Return the number of creations, dry runs included."""
    return sum(
        each.method == "POST" and each.path.endswith(f"/{plural}")
        for each in recording.writes
    )


@pytest.mark.parametrize(
    ("mutation", "field"),
    [
        (PIN, "spec.template.spec.containers[0].image"),
        (
            patch("add", "/spec/template/spec/terminationGracePeriodSeconds", "7"),
            "spec.template.spec.terminationGracePeriodSeconds",
        ),
        (
            patch("add", "/spec/template/metadata/annotations", "{'a': 'b'}"),
            "spec.template.metadata.annotations",
        ),
        (
            patch("add", f"{CONTAINER}/env", "[{'name': 'A', 'value': 'b'}]"),
            "spec.template.spec.containers[0].env",
        ),
    ],
)
async def test_a_deployment_says_which_field_of_its_replica_sets_is_changed(
    cluster: Cluster, mutation: JSON, field: str
) -> None:
    """Upstream creates four replica sets a second, without a word."""
    user = User(cluster)
    async with running(cluster, "replicasets", mutation, "deployment") as recording:
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(1000)
        deployment = await user.deployment()
        (progressing,) = (
            each
            for each in deployment.status.conditions or ()
            if each.type == "Progressing"
        )
        events = await user.events("ReplicaSetMutated")
    assert len(await user.replica_sets()) == 1
    # One creation, and dry runs after 1, 3, 7, 15, ... 511 and 811 s.
    assert posts(recording, "replicasets") == 11
    assert (progressing.status, progressing.reason) == ("False", "ReplicaSetMutated")
    assert f"Admission has changed {field} of" in progressing.message
    assert {each.message for each in events} == {progressing.message}
    assert {each.type for each in events} == {"Warning"}
    assert deployment.status.replicas == 2


async def test_a_deployment_goes_on_when_the_mutation_ends(cluster: Cluster) -> None:
    """Five minutes later at most."""
    user = User(cluster)
    async with running(cluster, "replicasets", PIN, "deployment"):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(700)
        await end_mutation(cluster)
        await settle(320)
        deployment = await user.deployment()
        images = {
            bytes(each.spec.template.spec)
            for each in (await user.replica_sets()).values()
        }
    assert deployment.status.updated_replicas == 2
    assert (await user.conditions())["Progressing"] == (
        "True",
        "NewReplicaSetAvailable",
    )
    assert len(images) == 2


async def test_a_changed_deployment_is_tried_at_once(cluster: Cluster) -> None:
    """Without a template that the mutation leaves as it is, by a dry run only."""
    user = User(cluster)
    async with running(cluster, "replicasets", PIN, "deployment") as recording:
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(700)
        recording.writes.clear()
        await user.set_image("registry.example/app:2")
        await settle(0.5)
        assert posts(recording, "replicasets") == 1
        await user.set_image(PINNED)
        await settle(5)
        assert (await user.deployment()).status.updated_replicas == 2
    assert len(await user.replica_sets()) == 1


async def test_a_size_that_changes_meanwhile_creates_no_replica_set(
    cluster: Cluster,
) -> None:
    """The pods of the changed replica set are scaled, as those of any old one."""
    user = User(cluster)
    async with running(cluster, "replicasets", PIN, "deployment"):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(100)
        for size in range(3, 9):
            await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": size}})
            await settle(10)
        assert len(await user.replica_sets()) == 1
        assert len(await user.pods()) == 8


@pytest.mark.parametrize("controller", ["daemonset", "statefulset"])
async def test_a_revision_that_is_changed_is_used_and_told_of(
    cluster: Cluster, controller: str
) -> None:
    """Upstream creates one revision after the other, and replaces the pods."""
    user = User(cluster)
    resource: Any = DAEMON_SETS
    body = daemon_set_json("web")
    if controller == "statefulset":
        resource = STATEFUL_SETS
        body = replica_set_json("web") | {"kind": "StatefulSet"}
        body["spec"]["serviceName"] = "web"
    pin = patch("replace", f"{OF_REVISION}/image", f"'{PINNED}'")
    async with running(cluster, "controllerrevisions", pin, controller) as recording:
        await user.create(resource, body)
        await settle(1000)
        events = await user.events("RevisionMutated")
        uids = {each.metadata.uid for each in await user.pods()}
        assert len(uids) == 3
        assert posts(recording, "controllerrevisions") == 11
        assert {each.message.partition(" of the")[0] for each in events} == {
            "Admission has changed data.spec.template.spec.containers[0].image"
        }
        await end_mutation(cluster)
        await settle(600)
        revisions = (await user.client.list_page(CONTROLLER_REVISIONS)).items
        assert len(revisions) == 2
        assert len(await user.pods()) == 3
        recording.writes.clear()
        await settle(600)
        assert recording.writes == []


@pytest.mark.parametrize("controller", ["daemonset", "statefulset"])
async def test_a_new_template_is_rolled_out_in_spite_of_changed_revisions(
    cluster: Cluster, controller: str
) -> None:
    """It gets a revision of its own, once; the first template's stays another one."""
    user = User(cluster)
    pin = patch("replace", f"{OF_REVISION}/image", f"'{PINNED}'")
    async with running(cluster, "controllerrevisions", pin, controller):
        resource = await _owner(user, controller)
        await settle(400)
        before = {each.metadata.uid for each in await user.pods()}
        await _relabel(user, resource)
        await settle(400)
        after = await user.pods()
        revisions = (await user.client.list_page(CONTROLLER_REVISIONS)).items
    assert [(each.metadata.labels or {}).get("a") for each in after] == ["b"] * 3
    assert before.isdisjoint(each.metadata.uid for each in after)
    assert len(revisions) == 2


@pytest.mark.parametrize("controller", ["daemonset", "statefulset"])
async def test_the_next_leader_finds_the_changed_revision(
    cluster: Cluster, controller: str
) -> None:
    """A dry run shows that admission made it of this template."""
    user = User(cluster)
    pin = patch("replace", f"{OF_REVISION}/image", f"'{PINNED}'")
    async with running(cluster, "controllerrevisions", pin, controller):
        await _owner(user, controller)
        await settle(60)
    pods = {each.metadata.uid for each in await user.pods()}
    config = make_config(controllers=(f"{controller}-controller",))
    async with cluster.nodes(), cluster.manager(config):
        await settle(60)
        revisions = (await user.client.list_page(CONTROLLER_REVISIONS)).items
        assert {each.metadata.uid for each in await user.pods()} == pods
    assert len(revisions) == 1
    assert len(pods) == 3


@pytest.mark.parametrize("code", [400, 500])
async def test_a_daemon_set_goes_on_while_dry_runs_are_refused(
    cluster: Cluster, code: int
) -> None:
    """A pod that is deleted is replaced, and the message has the refusal."""
    user = User(cluster)
    for kind, body in policy(
        "controllerrevisions", patch("replace", f"{OF_REVISION}/image", f"'{PINNED}'")
    ):
        cluster.add(kind, body["metadata"]["name"], API, spec=body["spec"])
    transport = NoDryRuns(cluster, code)
    config = make_config(controllers=("daemonset-controller",))
    async with cluster.nodes(), cluster.manager(config, transport):
        await settle(5)
        await user.create(DAEMON_SETS, daemon_set_json("web"))
        await settle(60)
        lost, *_ = await user.pods()
        await user.client.delete(PODS, "default", lost.metadata.name)
        await settle(10)
        assert len(await user.pods()) == 3
        messages = [each.message for each in await user.events("RevisionMutated")]
    assert any(each.endswith("dry run failed: no dry runs") for each in messages)
    assert 5 <= transport.refused <= 7


class NoDryRuns(RecordingTransport):
    """Refuses dry runs, as a server does for a webhook that does not support them."""

    def __init__(self, cluster: Cluster, code: int) -> None:
        super().__init__(cluster.transport)
        self._code = code
        self.refused = 0
        self.refuses = True

    async def request(self, request: Request) -> Response:
        if not self.refuses or ("dryRun", "All") not in request.query:
            return await super().request(request)
        self.refused += 1
        status = {
            "kind": "Status",
            "status": "Failure",
            "code": self._code,
            "message": "no dry runs",
            "reason": "BadRequest" if self._code == 400 else "InternalError",
        }
        return Response(self._code, {}, json.dumps(status).encode())


async def _owner(user: User, controller: str) -> Any:
    if controller == "daemonset":
        await user.create(DAEMON_SETS, daemon_set_json("web"))
        return DAEMON_SETS
    body = replica_set_json("web") | {"kind": "StatefulSet"}
    body["spec"]["serviceName"] = "web"
    await user.create(STATEFUL_SETS, body)
    return STATEFUL_SETS


async def _relabel(user: User, resource: Any) -> None:
    template = {"metadata": {"labels": {"a": "b"}}}
    await user.patch(resource, "web", {"spec": {"template": template}})


async def test_the_strategy_recreate_keeps_the_pods_of_the_changed_replica_set(
    cluster: Cluster,
) -> None:
    """It scaled them to zero at once, and waited without any pod."""
    user = User(cluster)
    body = deployment_json(replicas=2)
    body["spec"]["strategy"] = {"type": "Recreate"}
    async with running(cluster, "replicasets", PIN, "deployment") as recording:
        await user.create(DEPLOYMENTS, body)
        for _ in range(5):
            await settle(20)
            assert len(await user.pods()) == 2
        await user.set_image("registry.example/app:2")
        await settle(20)
        assert len(await user.pods()) == 2
        assert len(await user.replica_sets()) == 1
        await user.set_image(PINNED)
        await settle(5)
        await user.set_image("registry.example/app:3")
        await settle(20)
        await end_mutation(cluster)
        await settle(320)
        assert (await user.deployment()).status.updated_replicas == 2
    assert posts(recording, "replicasets") < 30


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
async def test_the_next_leader_creates_no_replica_set(
    cluster: Cluster, strategy: str
) -> None:
    """The condition tells it to ask by a dry run first."""
    user = User(cluster)
    body = deployment_json(replicas=2)
    body["spec"]["strategy"] = {"type": strategy}
    async with running(cluster, "replicasets", PIN, "deployment"):
        await user.create(DEPLOYMENTS, body)
        await settle(60)
    pods = {each.metadata.uid for each in await user.pods()}
    message = await _progress_message(user)
    config = make_config(controllers=("deployment-controller", "replicaset-controller"))
    async with cluster.nodes(), cluster.manager(config):
        await settle(60)
        assert {each.metadata.uid for each in await user.pods()} == pods
        assert len(await user.replica_sets()) == 1
        assert await _progress_message(user) == message
        await end_mutation(cluster)
        await settle(320)
        assert (await user.deployment()).status.updated_replicas == 2


@pytest.mark.parametrize(("code", "least", "most"), [(400, 5, 8), (500, 1, 1)])
async def test_a_deployment_whose_dry_runs_are_refused_waits(
    cluster: Cluster, code: int, least: int, most: int
) -> None:
    """Where no dry run can tell, a creation does, at most every five minutes.

    An error that may pass is in the condition; the end of the mutation is seen later.
    """
    user = User(cluster)
    for kind, body in policy("replicasets", PIN):
        cluster.add(kind, body["metadata"]["name"], API, spec=body["spec"])
    transport = NoDryRuns(cluster, code)
    config = make_config(controllers=("deployment-controller", "replicaset-controller"))
    async with cluster.nodes(), cluster.manager(config, transport):
        await settle(5)
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(100)
        assert least <= len(await user.replica_sets()) <= most
        assert transport.refused <= 14
        told = (await _progress_message(user)).endswith("failed: no dry runs")
        assert told == (code == 500)
        await end_mutation(cluster)
        transport.refuses = code == 400
        await settle(320)
        assert (await user.deployment()).status.updated_replicas == 2


async def test_a_changed_replica_set_that_is_deleted_is_created_again(
    cluster: Cluster,
) -> None:
    """Otherwise the deployment would have no pods until the mutation ends."""
    user = User(cluster)
    async with running(cluster, "replicasets", PIN, "deployment"):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(60)
        (replica_set,) = (await user.replica_sets()).values()
        await user.client.delete(REPLICASETS, "default", replica_set.metadata.name)
        await settle(300)
        (again,) = (await user.replica_sets()).values()
        assert again.metadata.uid != replica_set.metadata.uid
        assert again.status.replicas == 2


async def _progress_message(user: User) -> str:
    conditions = (await user.deployment()).status.conditions or ()
    (message,) = (each.message for each in conditions if each.type == "Progressing")
    return message


async def test_a_replica_set_that_loses_its_labels_is_told_of(cluster: Cluster) -> None:
    """The deployment releases it, and created hundreds a second."""
    user = User(cluster)
    relabel = patch("replace", "/metadata/labels", "{'other': 'x'}")
    async with running(cluster, "replicasets", relabel, "deployment"):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(100)
        replica_sets = (await user.client.list_page(REPLICASETS)).items
        message = await _progress_message(user)
        await end_mutation(cluster)
        await settle(320)
        assert (await user.deployment()).status.updated_replicas == 2
    assert len(replica_sets) == 1
    assert message.startswith("Admission has changed metadata.labels.app of")
