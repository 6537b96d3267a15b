"""Each request of a stateful set may fail once, in any way."""

import json
from typing import Final

import pytest

from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport
from tests.controllers.apps.statefulset.builders import claim_template
from tests.controllers.apps.statefulset.test_as_upstream import Operator
from tests.controllers.apps.statefulset.test_on_cluster import config
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

LOST: Final = "the answer is lost"
ANSWERS: Final = {
    "forbidden": (403, "Forbidden"),
    "not found": (404, "NotFound"),
    "conflict": (409, "Conflict"),
    "invalid": (422, "Invalid"),
    "a webhook fails": (500, "InternalError"),
    "timeout": (504, "Timeout"),
}


class Faulty(RecordingTransport):
    """Fails the first request of each verb for each resource."""

    def __init__(self, cluster: Cluster, fault: str) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._fault = fault
        self.failed: set[tuple[str, str]] = set()

    async def request(self, request: Request) -> Response:
        kind = (request.method, _resource(request))
        is_about_sets = "/namespaces/default/" in request.path
        if not is_about_sets or kind[1] == "events" or kind in self.failed:
            return await super().request(request)
        self.failed.add(kind)
        if self._fault == LOST:
            await super().request(request)
            raise TransportError(self._fault)
        code, reason = ANSWERS[self._fault]
        status = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
        return Response(code, {}, json.dumps(status).encode())


def _resource(request: Request) -> str:
    parts = request.path.partition("/namespaces/default/")[2].split("/")
    return "/".join((parts[0], *parts[2:]))


@pytest.mark.parametrize("fault", [*ANSWERS, LOST])
async def test_a_set_survives_the_failure_of_each_request(
    cluster: Cluster, fault: str
) -> None:
    """It is created, updated, repaired and scaled down all the same."""
    user, transport = Operator(cluster), Faulty(cluster, fault)
    async with cluster.nodes(binds_claims=True), cluster.manager(config(), transport):
        await user.make(
            replicas=2,
            volumeClaimTemplates=[claim_template()],
            persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"},
        )
        await settle(120)
        await user.use("app:v2")
        await settle(120)
        assert await user.images() == {"web-0": "app:v2*", "web-1": "app:v2*"}
        await user.edit(replicas=1)
        await settle(120)
        assert await user.images() == {"web-0": "app:v2*"}
        assert await user.staying_claims() == ["data-web-0"]
        status = (await user.stateful_set()).status
    sizes = (status.replicas, status.available_replicas, status.updated_replicas)
    assert (sizes, status.current_revision) == ((1, 1, 1), status.update_revision)
    assert transport.failed >= {
        ("POST", "controllerrevisions"),
        ("POST", "persistentvolumeclaims"),
        ("POST", "pods"),
        ("PUT", "statefulsets/status"),
        ("DELETE", "pods"),
        ("PUT", "persistentvolumeclaims"),
        ("GET", "persistentvolumeclaims"),
        ("GET", "statefulsets"),
        ("GET", "pods"),
    }
