"""Requests of kubelets are approved on a cluster in memory, if RBAC allows it."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    SIGNING_REQUESTS,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from controller_manager.control.certificates.request import parse_request
from controller_manager.controllers.certificates.approving.controller import rights
from controller_manager.devcluster.apiserver.security import User
from tests.controllers.certificates.authorities import (
    CLIENT_USAGES,
    SERVING_USAGES,
    certificate_for,
    new_key,
    request_for,
    signing_request,
)
from tests.controllers.certificates.clusters import (
    APPROVING,
    NEWCOMER,
    NODE,
    SIGNING,
    allow,
    config_for,
    decide,
    make,
    read,
)
from tests.controllers.hands import Hands

pytestmark = pytest.mark.looptime

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
APPROVAL = "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval"


@pytest.mark.parametrize(
    ("user", "right", "what", "asked"),
    [
        (NODE, ("selfnodeclient", "system:nodes"), "self kubelet client", 1),
        (NODE, ("nodeclient", "system:nodes"), "kubelet client", 2),
        (NEWCOMER, ("nodeclient", "system:bootstrappers"), "kubelet client", 1),
    ],
)
async def test_one_right_is_enough(
    tmp_path: Path, user: User, right: tuple[str, str], what: str, asked: int
) -> None:
    cluster = Hands(rbac=True)
    allow(cluster, *right)
    make(cluster, signing_request(), user)
    config = config_for(tmp_path, (APPROVING, SIGNING))
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(10)
    found = await read(cluster)
    assert found.status.certificate
    assert found.status.conditions is not None
    (condition,) = found.status.conditions
    time = condition.last_update_time
    assert condition == CertificateSigningRequestCondition(
        type="Approved",
        status="True",
        reason="AutoApproved",
        message=f"Auto approving {what} certificate after SubjectAccessReview.",
        last_update_time=time,
        last_transition_time=time,
    )
    paths = [each.path for each in recording.writes]
    assert paths[: asked + 1] == [REVIEWS] * asked + [APPROVAL]


async def test_a_refused_request_is_reviewed_again(tmp_path: Path) -> None:
    """With a growing backoff, as upstream: RBAC may allow the request later."""
    cluster = Hands(rbac=True)
    make(cluster, signing_request(), NEWCOMER)
    config = config_for(tmp_path, (APPROVING,))
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(3600)
        asked = len(recording.writes)
        assert {each.path for each in recording.writes} == {REVIEWS}
        allow(cluster, "nodeclient", "system:bootstrappers")
        await asyncio.sleep(1001)
        assert (await read(cluster)).status.conditions
        assert len(recording.writes) <= asked + 3
    # 0.2 s, 0.4 s … 819.2 s are 13 tries in 1638.2 s; then there is one in 1,000 s.
    assert asked == 14 + int((3600 - 1638.2) // 1000)


SERVING: Final = {
    "request": request_for(dns=("n1",)),
    "signer": KUBELET_SERVING,
    "usages": SERVING_USAGES,
}
OF_MASTER: Final = request_for("system:node:n1", ("system:masters",))
MASTER: Final = User("system:node:n1", groups=("system:masters", "system:nodes"))


@pytest.mark.parametrize(
    ("user", "request_json", "expected"),
    [
        # The review allows an administrator's request, as upstream's does.
        (User("admin", groups=("system:masters",)), {}, [REVIEWS, APPROVAL]),
        # A request for another certificate needs no review.
        (MASTER, SERVING, []),
        (MASTER, {"signer": KUBE_APISERVER_CLIENT, "usages": ("client auth",)}, []),
        (MASTER, {"usages": ("client auth", "server auth")}, []),
        (MASTER, {"request": OF_MASTER}, []),
        (MASTER, {"request": request_for("jane")}, []),
        (MASTER, {"request": request_for(dns=("n1",))}, []),
    ],
)
async def test_what_is_reviewed_and_approved(
    tmp_path: Path, user: User, request_json: dict[str, Any], expected: list[str]
) -> None:
    cluster = Hands(rbac=True)
    make(cluster, signing_request(**request_json), user)
    async with cluster.confined_manager(config_for(tmp_path, (APPROVING,))) as seen:
        await asyncio.sleep(600)
    assert [each.path for each in seen.writes] == expected


async def test_a_denied_request_is_never_approved(tmp_path: Path) -> None:
    cluster = Hands(rbac=True)
    allow(cluster, "nodeclient", "system:nodes")
    make(cluster, signing_request())
    await decide(cluster, "a", "Denied")
    async with cluster.confined_manager(config_for(tmp_path, (APPROVING,))) as seen:
        await asyncio.sleep(600)
    assert seen.writes == []


async def test_a_review_names_the_whole_user(cluster: Hands, tmp_path: Path) -> None:
    groups = ("system:nodes", "system:authenticated")
    make(cluster, signing_request(), User("system:node:n1", "U", groups))
    stored = cluster.server.storage.collection(
        "certificatesigningrequests.certificates.k8s.io"
    )
    request = next(each.obj for each in stored)
    spec = {**request["spec"], "extra": {"example.com/team": ["a", "b"]}}
    stored.put(("", "a"), {**request, "spec": spec})
    async with cluster.manager(config_for(tmp_path, (APPROVING,))) as recording:
        await asyncio.sleep(1)
    review = next(each for each in recording.writes if each.path == REVIEWS)
    assert json.loads(review.body)["spec"] == {
        "user": "system:node:n1",
        "uid": "U",
        "groups": ["system:nodes", "system:authenticated"],
        "extra": {"example.com/team": ["a", "b"]},
        "resourceAttributes": {
            "group": "certificates.k8s.io",
            "resource": "certificatesigningrequests",
            "subresource": "selfnodeclient",
            "verb": "create",
            "version": "*",
        },
    }


async def test_a_certificate_needs_no_review(cluster: Hands, tmp_path: Path) -> None:
    make(cluster, signing_request())
    certificate = base64.b64encode(
        certificate_for(new_key()).public_bytes(Encoding.PEM)
    ).decode()
    cluster.edit(SIGNING_REQUESTS, "a", status={"certificate": certificate})
    async with cluster.manager(config_for(tmp_path, (APPROVING,))) as recording:
        await asyncio.sleep(600)
    assert [each for each in recording.writes if "reviews" in each.path] == []


_NODE: Final = "system:node:n1"
_BOTH: Final = ("selfnodeclient", "nodeclient")
_OTHER: Final = ("nodeclient",)
NODES: Final = ("system:nodes",)


class Case(NamedTuple):
    """A request of a user, and its rights in the order of the checks."""

    what: str
    rights: tuple[str, ...]
    user: str = _NODE
    signer: str = KUBELET_CLIENT
    usages: tuple[str, ...] = CLIENT_USAGES
    request: dict[str, Any] = {}  # noqa: RUF012 - a case does not change


CASES: Final = (
    Case("a node for itself", _BOTH),
    Case("a node without RSA", _BOTH, usages=("digital signature", "client auth")),
    Case("a node for itself, in another order", _BOTH, usages=CLIENT_USAGES[::-1]),
    Case("a node for another node", _OTHER, request={"common_name": "system:node:n2"}),
    Case("a newcomer", _OTHER, user="system:bootstrap:abcdef"),
    Case("an administrator", _OTHER, user="kubernetes-admin"),
    Case("nobody", _OTHER, user=""),
    Case("a name in other letters", _OTHER, user="System:Node:n1"),
    Case("half a name", (), request={"common_name": "system:node"}),
    Case("another name", (), user="jane", request={"common_name": "jane"}),
    Case("no name", (), user="", request={"common_name": ""}),
    Case("no organization", (), request={"organizations": ()}),
    Case("a master", (), request={"organizations": ("system:masters",)}),
    Case("a master, too", (), request={"organizations": (*NODES, "system:masters")}),
    Case("a DNS name", (), request={"dns": ("n1",)}),
    Case("an address", (), request={"addresses": ("10.0.0.1",)}),
    Case("an email", (), request={"emails": ("a@b.c",)}),
    Case("a URI", (), request={"uris": ("spiffe://a/b",)}),
    Case("a usage too many", (), usages=(*CLIENT_USAGES, "server auth")),
    Case("a usage too few", (), usages=("client auth",)),
    Case("no usages", (), usages=()),
    Case("usages of a server", (), usages=SERVING_USAGES),
    Case("a server", (), _NODE, KUBELET_SERVING, SERVING_USAGES, {"dns": ("n1",)}),
    Case("a client", (), signer=KUBE_APISERVER_CLIENT, usages=("client auth",)),
    Case("an old signer", (), signer=LEGACY_UNKNOWN),
    Case("another signer", (), signer="example.com/signer"),
    Case("no signer", (), signer=""),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_request_needs_the_rights_that_upstream_checks(case: Case) -> None:
    request = request_for(**case.request)
    spec = CertificateSigningRequestSpec(
        request=request, signer_name=case.signer, usages=case.usages, username=case.user
    )
    found = rights(spec, parse_request(request))
    assert tuple(each.subresource for each in found) == case.rights
