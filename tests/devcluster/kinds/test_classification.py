"""Answers name the flow schema and the priority level of their requests."""

from collections.abc import Sequence
from urllib.parse import parse_qsl

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.devcluster.server.security.authentication import (
    User,
    account_user,
)
from tests.clusters import Cluster
from tests.devcluster.kinds.requests import update
from tests.devcluster.kinds.test_flow_control import delete, kind_of, stored

pytestmark = pytest.mark.looptime

API = "flowcontrol.apiserver.k8s.io/v1"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
PODS = "/api/v1/namespaces/default/pods"
SCHEMA = "x-kubernetes-pf-flowschema-uid"
LEVEL = "x-kubernetes-pf-prioritylevel-uid"

Flow = tuple[str, str] | None


async def ask(
    cluster: Cluster, user: User, method: str, path: str, **headers: str
) -> Flow:
    """Return the names of the schema and the level in an answer, `None` without."""
    cluster.server.tokens.add("of-user", user)
    path, _, query = path.partition("?")
    request = Request(
        method,
        path,
        query=tuple(parse_qsl(query)),
        headers={
            "authorization": "Bearer of-user",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )
    answer = await cluster.server.handle(request)
    if not isinstance(answer, Response):
        await answer.close()
    if SCHEMA not in answer.headers:
        assert LEVEL not in answer.headers
        return None
    schema = named(cluster, "flowschemas", answer.headers[SCHEMA])
    level = named(cluster, "prioritylevelconfigurations", answer.headers[LEVEL])
    return schema, level


def named(cluster: Cluster, plural: str, uid: str) -> str:
    kind = kind_of(cluster, plural)
    (name,) = (
        each.obj["metadata"]["name"]
        for each in cluster.server.storage.collection(kind.resource)
        if each.obj["metadata"]["uid"] == uid
    )
    return str(name)


JANE = User("jane")
NODE = User("system:node:a", groups=("system:nodes", "system:authenticated"))
MANAGER = User("system:kube-controller-manager")
ENDPOINTS = account_user("kube-system", "endpoint-controller", "1")


@pytest.mark.parametrize(
    ("user", "method", "path", "flow"),
    [
        (User("a", groups=("system:masters",)), "GET", PODS, ("exempt", "exempt")),
        (JANE, "GET", PODS, ("global-default", "global-default")),
        (JANE, "GET", f"{PODS}?watch=true", ("global-default", "global-default")),
        (JANE, "GET", "/healthz", ("probes", "exempt")),
        (JANE, "GET", "/livez/ping", ("probes", "exempt")),
        (JANE, "GET", "/healthzy", ("global-default", "global-default")),
        (JANE, "GET", "/version", ("global-default", "global-default")),
        (JANE, "GET", f"{PODS}/a/log", None),
        (JANE, "POST", f"{PODS}/a/exec", None),
        (JANE, "GET", f"{PODS}?timeout=invalid", None),
        (User("b", groups=()), "GET", PODS, None),
        (NODE, "GET", "/api/v1/nodes/a", ("system-node-high", "node-high")),
        (NODE, "PATCH", "/api/v1/nodes/a/status", ("system-node-high", "node-high")),
        (NODE, "GET", LEASE, ("system-node-high", "node-high")),
        (NODE, "GET", PODS, ("system-nodes", "system")),
        (MANAGER, "PUT", LEASE, ("system-leader-election", "leader-election")),
        (MANAGER, "DELETE", LEASE, ("kube-controller-manager", "workload-high")),
        (
            MANAGER,
            "GET",
            "/api/v1/namespaces/default/endpoints/a",
            ("endpoint-controller", "workload-high"),
        ),
        (
            ENDPOINTS,
            "GET",
            LEASE,
            ("system-leader-election", "leader-election"),
        ),
        (
            ENDPOINTS,
            "GET",
            PODS,
            ("kube-system-service-accounts", "workload-high"),
        ),
        (
            account_user("default", "a", "2"),
            "GET",
            PODS,
            ("service-accounts", "workload-low"),
        ),
    ],
)
async def test_a_request_is_classified(
    cluster: Cluster, user: User, method: str, path: str, flow: Flow
) -> None:
    """By the first schema that matches its user and its verb and resource or path.

    Long connections and requests that are refused before have no schema.
    """
    assert await ask(cluster, user, method, path) == flow


def schema(level: str, subjects: Sequence[JSON], precedence: int = 1000) -> JSON:
    rule = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["pods"],
        "namespaces": ["default"],
    }
    return {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": list(subjects), "resourceRules": [rule]}],
    }


USER = {"kind": "User", "user": {"name": "jane"}}
EVERYBODY = {"kind": "User", "user": {"name": "*"}}
GROUP = {"kind": "Group", "group": {"name": "*"}}


async def test_a_new_schema_is_effective_at_once(cluster: Cluster) -> None:
    """Once its level exists. A smaller number goes first, and then the name."""
    admin = User("a", groups=("system:masters",))
    default = ("global-default", "global-default")
    assert await ask(cluster, JANE, "GET", PODS) == default
    cluster.add("FlowSchema", "mine", API, spec=schema("mine", [USER]))
    assert await ask(cluster, JANE, "GET", PODS) == default
    spec = stored(cluster, "prioritylevelconfigurations", "workload-low")["spec"]
    cluster.add("PriorityLevelConfiguration", "mine", API, spec=spec)
    assert await ask(cluster, JANE, "GET", PODS) == ("mine", "mine")
    assert await ask(cluster, JANE, "GET", "/api/v1/pods") == default
    assert await ask(cluster, JANE, "GET", PODS.replace("default", "x")) == default
    impersonated = await ask(cluster, admin, "GET", PODS, impersonate_user="jane")
    assert impersonated == ("mine", "mine")
    cluster.add("FlowSchema", "later", API, spec=schema("system", [EVERYBODY]))
    cluster.add("FlowSchema", "z", API, spec=schema("system", [GROUP], 999))
    assert await ask(cluster, JANE, "GET", PODS) == ("z", "system")
    delete(cluster, "flowschemas", "z")
    assert await ask(cluster, JANE, "GET", PODS) == ("later", "system")
    first = {"spec": schema("mine", [USER], 998)}
    update(cluster, stored(cluster, "flowschemas", "mine"), first)
    assert await ask(cluster, JANE, "GET", PODS) == ("mine", "mine")
    delete(cluster, "prioritylevelconfigurations", "mine")
    assert await ask(cluster, JANE, "GET", PODS) == ("later", "system")


async def test_a_forbidden_request_is_classified_too() -> None:
    """Authorization comes after it."""
    cluster = Cluster(rbac=True)
    cluster.server.tokens.add("jane", JANE)
    transport = InMemoryTransport(cluster.server, "jane")
    answer = await transport.request(Request("GET", PODS))
    assert answer.status == 403
    assert named(cluster, "flowschemas", answer.headers[SCHEMA]) == "global-default"
