"""Writes: their names, their types, and their refusals."""

import re
import sys
from operator import itemgetter
from pathlib import Path

import pytest
import yaml

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Status
from controller_manager.client.rest import errors
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.runtime.outcome import SyncError
from controller_manager.version import COMMAND_USER_AGENT, USER_AGENT, VERSION
from tests.clusters import TOKEN, Cluster, make_config
from tests.controllers.builders import replica_set_json, template
from tests.controllers.user import User, settle
from tests.distributions import completed


def test_the_user_agent_of_the_daemon_begins_as_upstreams() -> None:
    own = f"controller-manager/v{VERSION}"
    assert f"kube-controller-manager/v1.36.2 {own}" == USER_AGENT


def managers_of(cluster: Cluster, api: str, kind: str) -> list[set[str]]:
    found = cluster.server.catalogue.of(api, kind)
    assert found is not None
    stored = cluster.server.storage.collection(found.resource)
    metadata = sorted((each.obj["metadata"] for each in stored), key=itemgetter("name"))
    return [{entry["manager"] for entry in each["managedFields"]} for each in metadata]


@pytest.mark.looptime
async def test_writes_have_upstreams_field_manager(cluster: Cluster) -> None:
    user = User(cluster)
    async with cluster.manager(make_config(controllers=("replicaset-controller",))):
        await user.create(REPLICASETS, replica_set_json(replicas=1))
        await settle()
    command = InMemoryTransport(cluster.server, TOKEN, COMMAND_USER_AGENT)
    user.client = type(user.client)(command, cluster.clock)
    await user.create(PODS, {"metadata": {"name": "other"}, "spec": template()["spec"]})
    assert managers_of(cluster, "v1", "Pod") == [
        {"controller-manager"},
        {"kube-controller-manager"},
    ]
    assert managers_of(cluster, "apps/v1", "ReplicaSet") == [
        {"kube-controller-manager"}
    ]


ROOT = Path(__file__).parents[3]

VERBS = """
from controller_manager.api.apps.v1 import DEPLOYMENTS, Deployment
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import PartialObject
from controller_manager.api.meta import Resource
from controller_manager.client.rest.client import Client

PARTIAL: Resource[PartialObject] = Resource(
    "", "v1", "pods", "Pod", PartialObject, metadata_only=True
)


async def write_projections(
    client: Client, pod: Pod, node: Node, partial: PartialObject
) -> None:
    await client.update(PODS, pod)  # refused
    await client.update(PODS, pod, "status")  # refused
    await client.update(NODES, node)  # refused
    await client.update(PARTIAL, partial)  # refused
    await client.create(PODS, pod)  # refused
    await client.create_subresource(PODS, "n", "p", "eviction", pod)  # refused
    await client.update(DEPLOYMENTS, pod)  # refused


async def do_what_is_allowed(client: Client, deployment: Deployment) -> None:
    stored: Deployment = await client.update(DEPLOYMENTS, deployment)
    await client.update(DEPLOYMENTS, stored, "status")
    await client.create(DEPLOYMENTS, stored)
    pod: Pod = await client.get(PODS, "n", "p")
    pod = await client.create_json(PODS, "n", b"{}")
    pod = await client.patch(PODS, "n", pod.metadata.name, {})
    await client.delete(PODS, "n", "p")
"""


@pytest.mark.slow
def test_the_type_checker_knows_what_may_be_written(tmp_path: Path) -> None:
    snippet = tmp_path / "verbs.py"
    snippet.write_text(VERBS)
    mypy = (sys.executable, "-m", "mypy", "--config-file", "pyproject.toml")
    ran = completed(*mypy, snippet, cwd=ROOT, timeout=180)
    wrong = {int(line) for line in re.findall(r"verbs\.py:(\d+): error", ran.stdout)}
    expected = {
        number
        for number, line in enumerate(VERBS.splitlines(), 1)
        if line.endswith("# refused")
    }
    assert wrong == expected, ran.stdout + ran.stderr


DATA = Path(__file__).parents[2] / "data"

QUOTA = (
    'pods "web-" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, '
    "limited: pods=1"
)

ANSWERS = yaml.safe_load((DATA / "refusals.yaml").read_text())


def error(code: int, reason: str, message: str) -> errors.APIError:
    return errors.error_from_status(Status(code=code, reason=reason, message=message))


@pytest.mark.parametrize(
    "answer", ANSWERS["refused"], ids=lambda answer: answer["message"][:60]
)
def test_quota_validation_and_admission_refuse_an_object(answer: JSON) -> None:
    assert errors.is_refusal(error(**answer))


@pytest.mark.parametrize(
    "answer", ANSWERS["failed"], ids=lambda answer: answer["message"][:60]
)
def test_missing_rights_and_failures_are_no_refusals(answer: JSON) -> None:
    """Also if admission asks for the right, or a proxy chooses the code."""
    assert not errors.is_refusal(error(**answer))


def test_a_long_hostile_message_is_read_in_a_moment() -> None:
    """A tenant chooses the values in it; the time grows with its length only."""
    for start in ('forbidden: User "', 'a "', 'admission webhook "'):
        message = start * 200_000
        assert errors.is_refusal(error(403, "Forbidden", message))
        assert errors.is_refusal(error(422, "Invalid", message))


def test_an_answer_of_no_api_server_is_no_refusal() -> None:
    assert not errors.is_refusal(errors.error_from_response(403, b"forbidden", None))
    assert not errors.is_refusal(errors.error_from_response(422, b"", None))


def test_the_cause_of_an_error_counts() -> None:
    refused = SyncError("pod default/web-0, ephemeral volume data: create PVC: quota")
    refused.__cause__ = error(403, "Forbidden", QUOTA)
    outer = SyncError("not synced")
    outer.__cause__ = refused
    assert errors.is_refusal(outer)
    assert not errors.is_refusal(SyncError("exceeded quota"))
    assert not errors.is_refusal(errors.TransportError("no answer"))
    assert not errors.is_refusal(None)


def test_several_failures_are_a_refusal_only_if_all_are() -> None:
    quota, other = error(403, "Forbidden", QUOTA), error(422, "Invalid", "is invalid")
    lost = errors.TransportError("no answer")
    assert errors.gravest([quota, other]) is quota
    assert errors.gravest([quota, lost, other]) is lost
    assert errors.gravest([]) is None
