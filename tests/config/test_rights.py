"""The accounts of config/ may do what their controllers need, and nothing more."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import SERVICE_ACCOUNTS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import key_of
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.controlplane import MANAGER, bootstrap_objects
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.permissions import REVIEW_PERMISSIONS
from controller_manager.options.config import Config, RateLimit, ServingConfig
from controller_manager.registry import registry
from controller_manager.runtime.permissions import Permission, rule
from tests.clusters import Cluster, RecordingTransport, run_manager
from tests.config.manifests import (
    BASE,
    STAND_BY,
    arguments_of,
    config_of,
    documents,
    static_pod,
    taking_over,
    trial,
)
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle
from tests.manager.daemons import manager_permissions
from tests.meddler import Observer


@dataclass(frozen=True)
class Way:
    """Manifests with a service account, and what its manager is told in the end."""

    directory: Path
    document: JSON

    @property
    def namespace(self) -> str:
        found: str = self.document["metadata"]["namespace"]
        return found

    @property
    def config(self) -> Config:
        config = config_of(arguments_of(self.document))
        unlimited = replace(config.client, limit=RateLimit(qps=0))
        return replace(config, serving=ServingConfig(port=0), client=unlimited)

    def permissions(self) -> tuple[Permission, ...]:
        """Return what its manager needs, as its controllers say."""
        generic = self.config.generic
        return manager_permissions(
            registry().select(generic.controllers), generic.leader_election
        )


WAYS: Final = {"trial": Way(BASE, trial()), "beside": Way(STAND_BY, taking_over())}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def ordered(rules: Iterable[JSON]) -> list[JSON]:
    return sorted(
        ({key: sorted(each[key]) for key in sorted(each)} for each in rules), key=str
    )


@every_way
def test_the_roles_are_derived_from_the_controllers(way: Way) -> None:
    roles = {
        each["metadata"].get("namespace", ""): ordered(each["rules"])
        for each in documents(way.directory / "rbac.yaml")
        if each["kind"] in ("Role", "ClusterRole")
    }
    needed: dict[str, list[JSON]] = {}
    for each in way.permissions():
        needed.setdefault(each.namespace, []).append(rule(each))
    assert roles == {where: ordered(rules) for where, rules in needed.items()}


@every_way
def test_reviews_are_allowed_by_roles_that_every_api_server_has(way: Way) -> None:
    bound = [
        (each["metadata"].get("namespace", ""), each["roleRef"]["name"])
        for each in documents(way.directory / "rbac.yaml")
        if each["kind"].endswith("Binding")
    ]
    given = [*_bootstrap_rules(bound)]
    for permission in REVIEW_PERMISSIONS:
        assert any(_covers(where, each, permission) for where, each in given)


def _bootstrap_rules(bound: Iterable[tuple[str, str]]) -> Iterator[tuple[str, JSON]]:
    for role in bootstrap_objects(registry()):
        for where, name in bound:
            if role["metadata"]["name"] == name and "rules" in role:
                yield from ((where, each) for each in role["rules"])


def _covers(where: str, given: JSON, needed: Permission) -> bool:
    """Tell whether a rule that is bound somewhere allows what a permission says."""
    names = given.get("resourceNames", needed.names)
    return (
        where in ("", needed.namespace)
        and {"*", needed.group} & {*given.get("apiGroups", ())} != set()
        and {"*", needed.resource} & {*given.get("resources", ())} != set()
        and {*needed.verbs} <= {*given["verbs"]}
        and {*needed.names} <= {*names}
        and bool(needed.names) >= ("resourceNames" in given)
    )


def test_kubeadms_user_may_do_what_a_manager_with_all_controllers_needs() -> None:
    generic = config_of(arguments_of(static_pod())).generic
    needed = manager_permissions(
        registry().select(generic.controllers), generic.leader_election
    )
    bindings = [
        (each["metadata"].get("namespace", ""), each["roleRef"]["name"])
        for each in bootstrap_objects(registry())
        if each["kind"].endswith("Binding")
        and any(subject["name"] == MANAGER for subject in each["subjects"])
    ]
    given = [*_bootstrap_rules(bindings)]
    lacking = [
        permission
        for permission in (*needed, *REVIEW_PERMISSIONS)
        if not any(
            _covers(where, each, _single(permission, verb))
            for where, each in given
            for verb in permission.verbs
        )
    ]
    assert lacking == []
    assert any(each.resource == "secrets" for each in needed)


def _single(permission: Permission, verb: str) -> Permission:
    return Permission(
        permission.group,
        permission.resource,
        (verb,),
        permission.names,
        permission.namespace,
    )


@dataclass
class Reads(Observer):
    seen: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def note(self, request: Request, status: int) -> None:
        if status == HTTPStatus.FORBIDDEN:
            self.refused.append(f"{request.method} {request.path}")
        if request.method == "GET" and "namespaces/" not in request.path:
            self.seen.add(request.path.rpartition("/")[2])


async def _installed(way: Way) -> tuple[Cluster, str]:
    """Return a cluster with the objects of a way, and a token of its account."""
    cluster = Cluster(rbac=True)
    for name in ("namespace", "service-account", "rbac"):
        for document in documents(way.directory / f"{name}.yaml"):
            kind = cluster.server.catalogue.of(document["apiVersion"], document["kind"])
            assert kind is not None
            namespace = document["metadata"].get("namespace", "")
            cluster.server.objects.create(kind, namespace, document)
    accounts = cluster.server.storage.collection("serviceaccounts")
    account = accounts.get((way.namespace, "controller-manager"))
    assert account is not None
    now = cluster.clock.now()
    token = cluster.server.tokens.issue(
        way.namespace,
        "controller-manager",
        account.obj["metadata"]["uid"],
        now.replace(year=now.year + 1),
    )
    return cluster, token


@pytest.mark.looptime
@every_way
async def test_a_manager_works_with_this_account(way: Way) -> None:
    cluster, token = await _installed(way)
    manager = Reads(RecordingTransport(InMemoryTransport(cluster.server, token)))
    controllers = Reads(RecordingTransport(InMemoryTransport(cluster.server)))
    user = User(cluster)
    async with (
        cluster.nodes(),
        run_manager(
            Connections(manager, controllers), cluster.clock, cluster.rng, way.config
        ),
    ):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(30)
        pods = await user.pods()
        accounts = (await user.client.list_page(SERVICE_ACCOUNTS)).items
        leases = (await user.client.list_page(LEASES)).items
    election = way.config.generic.leader_election
    assert [key_of(each) for each in leases] == [
        f"{election.resource_namespace}/{election.resource_name}"
    ]
    assert manager.refused + controllers.refused == []
    cached = {
        each.resource
        for each in way.permissions()
        if not each.namespace and "list" in each.verbs
    }
    assert cached <= manager.seen
    work = {"trial": ("default" in {each.metadata.name for each in accounts}, 0)}
    assert work.get(_name(way), (True, 2)) == (True, len(pods))


def _name(way: Way) -> str:
    return next(name for name, each in WAYS.items() if each is way)


LEASES_OF: Final = "/apis/coordination.k8s.io/v1/namespaces"
ACCOUNTS: Final = "/api/v1/namespaces/kube-system/serviceaccounts"
ELSEWHERE: Final = "/api/v1/namespaces/default/serviceaccounts"
OWN: Final = "/api/v1/namespaces/{own}"
FORBIDDEN: Final = {
    "all secrets": "GET /api/v1/secrets",
    "secrets of its namespace": "GET /api/v1/namespaces/{own}/secrets",
    "a secret of the system": "GET /api/v1/namespaces/kube-system/secrets/s",
    "config maps": "GET /api/v1/configmaps",
    "nodes": "GET /api/v1/nodes",
    "everything of another group": "GET /apis/storage.k8s.io/v1/storageclasses",
    "an account": "GET /api/v1/namespaces/kube-system/serviceaccounts/a",
    "another's lease": f"GET {LEASES_OF}/kube-system/leases/kube-controller-manager",
    "another lease beside its own": f"GET {LEASES_OF}/{{own}}/leases/other",
    "an account of another namespace": f"POST {ELSEWHERE}",
    "another's token": f"POST {ACCOUNTS}/clusterrole-aggregation-controller/token",
    "its own token": f"POST {OWN}/serviceaccounts/controller-manager/token",
    "a token of an account elsewhere": f"POST {ELSEWHERE}/deployment-controller/token",
    "a role": "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "a pod": "POST /api/v1/namespaces/{own}/pods",
}


@pytest.mark.looptime
@every_way
@pytest.mark.parametrize("what", FORBIDDEN)
async def test_the_account_may_not(way: Way, what: str) -> None:
    """It can neither read a secret, nor become somebody who can."""
    cluster, token = await _installed(way)
    method, path = FORBIDDEN[what].split()
    answer = await InMemoryTransport(cluster.server, token).request(
        Request(method, path.format(own=way.namespace), body=b"{}")
    )
    assert answer.status == HTTPStatus.FORBIDDEN


@pytest.mark.looptime
@every_way
async def test_tokens_are_granted_for_the_accounts_of_its_controllers(way: Way) -> None:
    """It creates missing accounts, and these may not read secrets either."""
    cluster, token = await _installed(way)
    own = InMemoryTransport(cluster.server, token)
    names = {each.account for each in _selected(way)}
    for name in sorted(names):
        body: dict[str, Any] = {"metadata": {"name": name}}
        assert await _post(own, ACCOUNTS, body) == HTTPStatus.CREATED
        assert await _post(own, f"{ACCOUNTS}/{name}/token", {}) == HTTPStatus.CREATED
    for each in _selected(way):
        assert {"secrets", "*"} & {one.resource for one in each.permissions} == set()


def _selected(way: Way) -> list[Any]:
    return registry().select(way.config.generic.controllers)


async def _post(transport: InMemoryTransport, path: str, body: JSON) -> int:

    request = Request("POST", path, body=json.dumps(body).encode())
    return (await transport.request(request)).status
