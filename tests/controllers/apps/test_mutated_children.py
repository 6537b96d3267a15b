"""Admission that changes each new child of an owner causes no storm of children."""

from typing import Final

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.transport import Request, Response
from controller_manager.options.config import Config
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import daemon_set_json, deployment_json
from tests.controllers.hands import Hands
from tests.controllers.responses import refusal
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime

IMAGE: Final = "/spec/template/spec/containers/0/image"
PINNED: Final = "'registry.example/app@sha256:0'"
PIN: Final = (IMAGE, PINNED)
PIN_REVISION: Final = (f"/data{IMAGE}", PINNED)
POLICIES: Final = "admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS: Final = "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
OWNERS: Final[dict[str, tuple[AnyResource, JSON]]] = {
    "daemonset": (DAEMON_SETS, daemon_set_json("web")),
    "statefulset": (STATEFUL_SETS, stateful_set_json()),
}


def config(controller: str = "deployment") -> Config:
    return make_config(
        controllers=(f"{controller}-controller", "replicaset-controller")
    )


class Mutated(Hands):
    """A cluster with a policy that changes new children of a controller."""

    def mutate(self, *words: str) -> None:
        """Let a patch change the children of deployments, or of another controller."""
        *controller, op, path, value = words
        expression = f"[JSONPatch{{op: {op!r}, path: {path!r}, value: {value}}}]"
        patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
        rule = {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["controllerrevisions" if controller else "replicasets"],
        }
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [rule]},
            "mutations": [patch],
        }
        self.put(POLICIES, "pin", spec=spec)
        self.put(BINDINGS, "pin", spec={"policyName": "pin"})

    def end_mutation(self) -> None:
        self.remove(BINDINGS, "pin")
        self.remove(POLICIES, "pin")

    def deploy(self, kind: str = "RollingUpdate") -> None:
        body = deployment_json(replicas=2, strategy={"type": kind})
        self.put(DEPLOYMENTS, "web", spec=body["spec"])

    def make(self, controller: str) -> None:
        resource, body = OWNERS[controller]
        self.put(resource, "web", spec=body["spec"])

    def relabel(self, controller: str) -> None:
        template = {"metadata": {"labels": {"a": "b"}}}
        self.edit(OWNERS[controller][0], "web", spec={"template": template})

    def scale(self, replicas: str) -> None:
        self.edit(DEPLOYMENTS, "web", spec={"replicas": int(replicas)})

    def uids(self) -> list[str]:
        return sorted(each["metadata"]["uid"] for each in self.all(PODS))

    def note_pods(self) -> None:
        self._noted = set(self.uids())

    def noted_pods(self) -> list[str]:
        """Return the uids of the noted pods that are still there."""
        return sorted(self._noted & set(self.uids()))

    def labels(self) -> list[str]:
        return [each["metadata"]["labels"].get("a") for each in self.all(PODS)]

    def templates(self) -> int:
        found = self.all("replicasets")
        return len({repr(each["spec"]["template"]) for each in found})

    def _progressing(self) -> JSON:
        conditions = self.stored(DEPLOYMENTS, "web")["status"]["conditions"]
        (found,) = (each for each in conditions if each["type"] == "Progressing")
        return dict(found)

    def progress(self) -> tuple[str, str]:
        condition = self._progressing()
        return condition["status"], condition["reason"]

    def message(self) -> str:
        return str(self._progressing()["message"])

    def said(self) -> str:
        return self.message().partition(" of ")[0]

    def warned(self, reason: str) -> list[str]:
        found = [each for each in self.all(EVENTS) if each["reason"] == reason]
        return sorted({each["message"] for each in found if each["type"] == "Warning"})

    def changed(self, reason: str) -> list[str]:
        return sorted({each.partition(" of the")[0] for each in self.warned(reason)})


@pytest.fixture
async def cluster() -> Mutated:
    return Mutated()


@scenarios("apps/mutated_children")
async def test_changed_children_cause_no_storm(scenario: Scenario) -> None:
    await scenario.play(Mutated, config, User)


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


@pytest.mark.parametrize("code", [400, 500])
async def test_a_daemon_set_goes_on_while_dry_runs_are_refused(
    cluster: Mutated, user: User, code: int
) -> None:
    """A pod that is deleted is replaced, and the message has the refusal."""
    transport = NoDryRuns(cluster, code)
    cluster.mutate("daemonset", "replace", *PIN_REVISION)
    async with cluster.nodes(), cluster.manager(config("daemonset"), transport):
        await settle(5)
        cluster.make("daemonset")
        await settle(60)
        lost, *_ = await user.pods()
        await user.delete(PODS, lost.metadata.name)
        await settle(10)
        assert len(await user.pods()) == 3
        messages = [each.message for each in await user.events("RevisionMutated")]
    assert any(each.endswith("dry run failed: no dry runs") for each in messages)
    assert 5 <= transport.refused <= 7


@pytest.mark.parametrize(("code", "least", "most"), [(400, 5, 8), (500, 1, 1)])
async def test_a_deployment_whose_dry_runs_are_refused_waits(
    cluster: Mutated, user: User, code: int, least: int, most: int
) -> None:
    """Where no dry run can tell, a creation does, at most every five minutes.

    An error that may pass is in the condition; the end of the mutation is seen later.
    """
    transport = NoDryRuns(cluster, code)
    cluster.mutate("replace", *PIN)
    async with cluster.nodes(), cluster.manager(config(), transport):
        await settle(5)
        cluster.deploy()
        await settle(100)
        assert least <= len(await user.replica_sets()) <= most
        assert transport.refused <= 14
        told = cluster.message().endswith("failed: no dry runs")
        assert told == (code == 500)
        cluster.end_mutation()
        transport.refuses = code == 400
        await settle(320)
        assert (await user.deployment()).status.updated_replicas == 2
