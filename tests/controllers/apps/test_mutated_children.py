"""Admission that changes each new child of an owner causes no storm of children."""

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
from controller_manager.api.meta import Resource
from controller_manager.client.rest.transport import Request, Response, Transport
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import daemon_set_json, deployment_json
from tests.controllers.responses import refusal
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime

PINNED = "registry.example/app@sha256:0"
CONTAINER = "/spec/template/spec/containers/0"
OF_REVISION = "/data/spec/template/spec/containers/0"


API = "admissionregistration.k8s.io/v1"


def patch(op: str, path: str, value: str) -> JSON:
    expression = f"[JSONPatch{{op: {op!r}, path: {path!r}, value: {value}}}]"
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


PIN = patch("replace", f"{CONTAINER}/image", f"'{PINNED}'")
PIN_REVISION = patch("replace", f"{OF_REVISION}/image", f"'{PINNED}'")


@asynccontextmanager
async def managed(
    cluster: Cluster, controller: str, transport: Transport | None = None
) -> AsyncGenerator[RecordingTransport, None]:
    names = (f"{controller}-controller", "replicaset-controller")
    config = make_config(controllers=names)
    async with cluster.nodes(), cluster.manager(config, transport) as recording:
        await settle(5)
        yield recording


@asynccontextmanager
async def running(
    cluster: Cluster,
    mutation: JSON = PIN,
    controller: str = "deployment",
    transport: Transport | None = None,
) -> AsyncGenerator[RecordingTransport, None]:
    """Run them with a policy that changes new children of the controller."""
    of_deployment = controller == "deployment"
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["replicasets" if of_deployment else "controllerrevisions"],
    }
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [mutation],
    }
    cluster.add("MutatingAdmissionPolicy", "pin", API, spec=spec)
    binding = {"policyName": "pin"}
    cluster.add("MutatingAdmissionPolicyBinding", "pin", API, spec=binding)
    async with managed(cluster, controller, transport) as recording:
        yield recording


async def deploy(user: User, kind: str = "RollingUpdate") -> None:
    body = deployment_json(replicas=2, strategy={"type": kind})
    await user.create(DEPLOYMENTS, body)


OWNERS: dict[str, tuple[Resource[Any], JSON]] = {
    "daemonset": (DAEMON_SETS, daemon_set_json("web")),
    "statefulset": (STATEFUL_SETS, stateful_set_json()),
}
of_revisions = pytest.mark.parametrize("controller", OWNERS)


async def uids(user: User) -> set[str]:
    return {each.metadata.uid for each in await user.pods()}


async def revisions(user: User) -> int:
    return len((await user.client.list_page(CONTROLLER_REVISIONS)).items)


async def updated(user: User) -> int:
    return (await user.deployment()).status.updated_replicas


async def progress_message(user: User) -> str:
    conditions = (await user.deployment()).status.conditions or ()
    (message,) = (each.message for each in conditions if each.type == "Progressing")
    return message


async def end_mutation(cluster: Cluster) -> None:
    for plural in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        path = f"/apis/{API}/{plural}/pin"
        answer = await cluster.transport.request(Request("DELETE", path))
        assert answer.status == 200, answer.body


async def goes_on(cluster: Cluster, user: User) -> None:
    """End the mutation; five minutes later at most the deployment is rolled out."""
    await end_mutation(cluster)
    await settle(320)
    assert await updated(user) == 2


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
    cluster: Cluster, user: User, mutation: JSON, field: str
) -> None:
    """Upstream creates four replica sets a second, without a word.

    The deployment goes on when the mutation ends, five minutes later at most.
    """
    async with running(cluster, mutation) as recording:
        await deploy(user)
        await settle(1000)
        progress, message = await user.conditions(), await progress_message(user)
        status = (await user.deployment()).status
        events = await user.events("ReplicaSetMutated")
        assert len(await user.replica_sets()) == 1
        # One creation, and dry runs after 1, 3, 7, 15, ... 511 and 811 s.
        assert posts(recording, "replicasets") == 11
        await goes_on(cluster, user)
        finished = ("True", "NewReplicaSetAvailable")
        assert (await user.conditions())["Progressing"] == finished
        templates = [
            each.spec.template for each in (await user.replica_sets()).values()
        ]
        assert len({repr(each) for each in templates}) == 2
    assert progress["Progressing"] == ("False", "ReplicaSetMutated")
    assert f"Admission has changed {field} of" in message
    told = {(each.type, each.message) for each in events}
    assert (told, status.replicas) == ({("Warning", message)}, 2)


async def test_a_changed_deployment_is_tried(cluster: Cluster, user: User) -> None:
    """Without a template that the mutation leaves as it is, by a dry run only."""
    async with running(cluster) as recording:
        await deploy(user)
        await settle(700)
        recording.writes.clear()
        await user.set_image("registry.example/app:2")
        await settle(0.5)
        assert posts(recording, "replicasets") == 1
        await user.set_image(PINNED)
        await settle(5)
        assert await updated(user) == 2
    assert len(await user.replica_sets()) == 1


async def test_a_size_makes_no_replica_set(cluster: Cluster, user: User) -> None:
    """The pods of the changed replica set are scaled, as those of any old one."""
    async with running(cluster):
        await deploy(user)
        await settle(100)
        for size in range(3, 9):
            await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": size}})
            await settle(10)
        assert len(await user.replica_sets()) == 1
        assert len(await user.pods()) == 8


@of_revisions
async def test_a_revision_that_is_changed_is_used_and_told_of(
    cluster: Cluster, user: User, controller: str
) -> None:
    """Upstream creates one revision after the other, and replaces the pods."""
    async with running(cluster, PIN_REVISION, controller) as recording:
        await user.create(*OWNERS[controller])
        await settle(1000)
        events = await user.events("RevisionMutated")
        assert len(await uids(user)) == 3
        assert posts(recording, "controllerrevisions") == 11
        assert {each.message.partition(" of the")[0] for each in events} == {
            "Admission has changed data.spec.template.spec.containers[0].image"
        }
        await end_mutation(cluster)
        await settle(600)
        assert (await revisions(user), len(await user.pods())) == (2, 3)
        recording.writes.clear()
        await settle(600)
        assert recording.writes == []


@of_revisions
async def test_a_new_template_is_rolled_out_in_spite_of_changed_revisions(
    cluster: Cluster, user: User, controller: str
) -> None:
    """It gets a revision of its own, once; the first template's stays another one."""
    resource, body = OWNERS[controller]
    async with running(cluster, PIN_REVISION, controller):
        await user.create(resource, body)
        await settle(400)
        before = await uids(user)
        template = {"metadata": {"labels": {"a": "b"}}}
        await user.patch(resource, "web", {"spec": {"template": template}})
        await settle(400)
        after = await user.pods()
        assert await revisions(user) == 2
    assert [(each.metadata.labels or {}).get("a") for each in after] == ["b"] * 3
    assert before.isdisjoint(each.metadata.uid for each in after)


@of_revisions
async def test_the_next_leader_finds_the_changed_revision(
    cluster: Cluster, user: User, controller: str
) -> None:
    """A dry run shows that admission made it of this template."""
    async with running(cluster, PIN_REVISION, controller):
        await user.create(*OWNERS[controller])
        await settle(60)
    pods = await uids(user)
    async with managed(cluster, controller):
        await settle(60)
        assert await uids(user) == pods
        assert (await revisions(user), len(pods)) == (1, 3)


@pytest.mark.parametrize("code", [400, 500])
async def test_a_daemon_set_goes_on_while_dry_runs_are_refused(
    cluster: Cluster, user: User, code: int
) -> None:
    """A pod that is deleted is replaced, and the message has the refusal."""
    transport = NoDryRuns(cluster, code)
    async with running(cluster, PIN_REVISION, "daemonset", transport):
        await user.create(*OWNERS["daemonset"])
        await settle(60)
        lost, *_ = await user.pods()
        await user.delete(PODS, lost.metadata.name)
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
        reason = "BadRequest" if self._code == 400 else "InternalError"
        return refusal(self._code, reason, "no dry runs")


async def test_recreate_keeps_the_changed_pods(cluster: Cluster, user: User) -> None:
    """It scaled them to zero at once, and waited without any pod."""
    async with running(cluster) as recording:
        await deploy(user, "Recreate")
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
        await goes_on(cluster, user)
    assert posts(recording, "replicasets") < 30


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
async def test_the_next_leader_creates_no_replica_set(
    cluster: Cluster, user: User, strategy: str
) -> None:
    """The condition tells it to ask by a dry run first."""
    async with running(cluster):
        await deploy(user, strategy)
        await settle(60)
    pods = await uids(user)
    message = await progress_message(user)
    async with managed(cluster, "deployment"):
        await settle(60)
        assert await uids(user) == pods
        assert len(await user.replica_sets()) == 1
        assert await progress_message(user) == message
        await goes_on(cluster, user)


@pytest.mark.parametrize(("code", "least", "most"), [(400, 5, 8), (500, 1, 1)])
async def test_a_deployment_whose_dry_runs_are_refused_waits(
    cluster: Cluster, user: User, code: int, least: int, most: int
) -> None:
    """Where no dry run can tell, a creation does, at most every five minutes.

    An error that may pass is in the condition; the end of the mutation is seen later.
    """
    transport = NoDryRuns(cluster, code)
    async with running(cluster, transport=transport):
        await deploy(user)
        await settle(100)
        assert least <= len(await user.replica_sets()) <= most
        assert transport.refused <= 14
        told = (await progress_message(user)).endswith("failed: no dry runs")
        assert told == (code == 500)
        await end_mutation(cluster)
        transport.refuses = code == 400
        await settle(320)
        assert await updated(user) == 2


async def test_a_deleted_one_is_created_again(cluster: Cluster, user: User) -> None:
    """Otherwise the deployment would have no pods until the mutation ends."""
    async with running(cluster):
        await deploy(user)
        await settle(60)
        (replica_set,) = (await user.replica_sets()).values()
        await user.client.delete(REPLICASETS, "default", replica_set.metadata.name)
        await settle(300)
        (again,) = (await user.replica_sets()).values()
        assert again.metadata.uid != replica_set.metadata.uid
        assert again.status.replicas == 2


async def test_lost_labels_are_told_of(cluster: Cluster, user: User) -> None:
    """The deployment releases it, and created hundreds a second."""
    relabel = patch("replace", "/metadata/labels", "{'other': 'x'}")
    async with running(cluster, relabel):
        await deploy(user)
        await settle(100)
        replica_sets = (await user.client.list_page(REPLICASETS)).items
        message = await progress_message(user)
        await goes_on(cluster, user)
    assert len(replica_sets) == 1
    assert message.startswith("Admission has changed metadata.labels.app of")
