"""The roles and bindings with which a cluster starts, and their reconciliation."""

import pytest

from controller_manager.devcluster.apiserver.admission import Chain
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.security import Attributes, User
from controller_manager.devcluster.controlplane import bootstrap_objects
from controller_manager.devcluster.registry.rbac import reconcile
from controller_manager.devcluster.storage import state_of
from controller_manager.registry import registry
from tests.clusters import TOKEN, Cluster
from tests.devcluster.registry.rbac.requests import ROLES, ask

pytestmark = pytest.mark.looptime

OTHERS = {
    "admin",
    "cluster-admin",
    "edit",
    "system:aggregate-to-admin",
    "system:aggregate-to-edit",
    "system:aggregate-to-view",
    "system:auth-delegator",
    "system:basic-user",
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
    "system:certificates.k8s.io:kube-apiserver-client-approver",
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
    "system:certificates.k8s.io:kubelet-serving-approver",
    "system:certificates.k8s.io:legacy-unknown-approver",
    "system:cluster-trust-bundle-discovery",
    "system:discovery",
    "system:heapster",
    "system:kube-aggregator",
    "system:kube-controller-manager",
    "system:kube-dns",
    "system:kube-scheduler",
    "system:kubelet-api-admin",
    "system:monitoring",
    "system:node",
    "system:node-bootstrapper",
    "system:node-problem-detector",
    "system:node-proxier",
    "system:persistent-volume-provisioner",
    "system:public-info-viewer",
    "system:service-account-issuer-discovery",
    "system:volume-scheduler",
    "view",
}
"""The cluster roles of cluster-roles.yaml in upstream's test data."""


READER = "system:aggregated-metrics-reader"
"""The role of metrics-server, which has no marks."""


def names(kind: str) -> set[str]:
    return {
        each["metadata"]["name"]
        for each in bootstrap_objects(registry())
        if each["kind"] == kind
    }


def test_every_role_of_upstream_is_there() -> None:
    """Besides those of the controllers; all with upstream's marks."""
    found = names("ClusterRole")
    others = {*OTHERS, READER}
    assert {each for each in found if ":controller:" not in each} == others
    assert names("Role") == {
        "extension-apiserver-authentication-reader",
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-scheduler",
        "system:controller:bootstrap-signer",
        "system:controller:cloud-provider",
        "system:controller:token-cleaner",
    }
    for each in bootstrap_objects(registry()):
        metadata = each["metadata"]
        if metadata["name"] == READER:
            continue
        assert metadata["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert metadata["annotations"] == {
            "rbac.authorization.kubernetes.io/autoupdate": "true"
        }


@pytest.mark.parametrize(
    ("user", "verb", "resource", "allowed"),
    [
        (User("system:kube-scheduler"), "create", "pods/binding", True),
        (User("system:kube-scheduler"), "create", "pods", False),
        (User("system:kube-proxy"), "watch", "services", True),
        (User("n", groups=("system:nodes",)), "list", "pods", False),
        (User("m", groups=("system:masters",)), "delete", "nodes", True),
        (User("jane"), "list", "pods", False),
    ],
)
async def test_components_may_do_their_work(
    user: User, verb: str, resource: str, *, allowed: bool
) -> None:
    """And nothing else; the role of nodes has no subjects."""
    authorizer = Cluster(rbac=True).server.authorizer
    plural, _, subresource = resource.partition("/")
    wish = Attributes(
        verb, resource=plural, subresource=subresource, namespace="default"
    )
    assert authorizer.allows(user, wish) is allowed


async def test_anonymous_users_read_public_paths() -> None:
    cluster = Cluster(rbac=True)
    statuses = {
        path: (await ask(cluster, "", "GET", path))[0] for path in ("/version", "/api")
    }
    assert statuses == {"/version": 200, "/api": 403}
    _, answer = await ask(cluster, "", "GET", "/api/v1/pods")
    assert answer["message"] == (
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API '
        'group "" at the cluster scope'
    )
    _, answer = await ask(cluster, "", "GET", "/")
    expected = 'forbidden: User "system:anonymous" cannot get path "/"'
    assert answer["message"] == expected


def reconciled(cluster: Cluster) -> int:
    """Reconcile as a server that starts; return the number of writes."""
    server = cluster.server
    before = server.storage.version
    objects = Objects(server.storage, cluster.clock, cluster.rng, Chain())
    reconcile(objects, server.catalogue.of, bootstrap_objects(registry()))
    return server.storage.version - before


async def test_a_restart_adds_missing_rules_and_subjects() -> None:
    """Rules and subjects are added; what users have added stays."""
    cluster = Cluster(rbac=True)
    assert reconciled(cluster) == 0
    merge = {"content_type": "application/merge-patch+json"}
    mine = {"verbs": ["get"], "apiGroups": ["x"], "resources": ["xs"]}
    one = {"kind": "Group", "name": "guests"}
    role, binding = (
        f"{ROLES}/{plural}/system:basic-user"
        for plural in ("clusterroles", "clusterrolebindings")
    )
    before = (await ask(cluster, TOKEN, "GET", role))[1]
    labels = {"labels": {"kubernetes.io/bootstrapping": None, "a": "b"}}
    for path, body in (
        (role, {"metadata": labels, "rules": [mine, before["rules"][1]]}),
        (binding, {"subjects": [one]}),
    ):
        assert (await ask(cluster, TOKEN, "PATCH", path, body, **merge))[0] == 200
    await ask(cluster, TOKEN, "DELETE", f"{ROLES}/clusterroles/system:heapster")
    assert reconciled(cluster) == 3
    after = (await ask(cluster, TOKEN, "GET", role))[1]
    asking = {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"]}
    assert after["rules"] == [
        mine,
        before["rules"][1],
        {**asking, "resources": ["selfsubjectaccessreviews"]},
        {**asking, "resources": ["selfsubjectrulesreviews"]},
    ]
    marks = {"kubernetes.io/bootstrapping": "rbac-defaults", "a": "b"}
    assert after["metadata"]["labels"] == marks
    subjects = (await ask(cluster, TOKEN, "GET", binding))[1]["subjects"]
    assert [each["name"] for each in subjects] == ["guests", "system:authenticated"]
    assert reconciled(cluster) == 0


async def test_a_protected_role_is_left_alone() -> None:
    """One whose annotation says so; a binding to another role is made again."""
    cluster = Cluster(rbac=True)
    merge = {"content_type": "application/merge-patch+json"}
    role = f"{ROLES}/clusterroles/system:kube-dns"
    protected = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    body = {"metadata": {"annotations": protected}, "rules": []}
    assert (await ask(cluster, TOKEN, "PATCH", role, body, **merge))[0] == 200
    binding = f"{ROLES}/clusterrolebindings/system:kube-dns"
    await ask(cluster, TOKEN, "DELETE", binding)
    reference = {"kind": "ClusterRole", "name": "cluster-admin"}
    body = {"metadata": {"name": "system:kube-dns"}, "roleRef": reference}
    await ask(cluster, TOKEN, "POST", f"{ROLES}/clusterrolebindings", body)
    reconciled(cluster)
    assert (await ask(cluster, TOKEN, "GET", role))[1]["rules"] is None
    answer = (await ask(cluster, TOKEN, "GET", binding))[1]
    assert answer["roleRef"]["name"] == "system:kube-dns"


async def test_a_snapshot_without_roles_gets_them() -> None:
    source, cluster = Cluster(), Cluster(rbac=True)
    cluster.server.restore(state_of(source.server.storage), ends_watches=True)
    assert reconciled(cluster) == 0
    assert cluster.server.authorizer.allows(
        User("jane"), Attributes("get", path="/version")
    )
