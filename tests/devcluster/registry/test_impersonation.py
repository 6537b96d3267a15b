"""Requests that are carried out as another user."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import TOKEN, Cluster
from tests.devcluster.registry.rbac.requests import allow, ask, log_in, rule, user
from tests.devcluster.registry.test_access_reviews import CASES

pytestmark = pytest.mark.looptime

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
AUTHENTICATION = "authentication.k8s.io"


@pytest.mark.parametrize("case", CASES["administrator"])
async def test_an_administrator_acts_as_any_user(case: JSON) -> None:
    """The groups are added that the user would have."""
    cluster = Cluster(rbac=True)
    # The impersonated user may ask for its identity.
    status, answer = await ask(cluster, TOKEN, "POST", WHO, {}, **case["headers"])
    assert (status, answer["status"]["userInfo"]) == (201, case["user"])


async def test_an_administrator_acts_as_the_anonymous_user() -> None:
    cluster = Cluster(rbac=True)
    headers = {"impersonate_user": "system:anonymous"}
    status, answer = await ask(cluster, TOKEN, "POST", WHO, {}, **headers)
    assert status == 403
    assert 'User "system:anonymous" cannot create' in answer["message"]
    status, _ = await ask(cluster, TOKEN, "GET", "/version", None, **headers)
    assert status == 200


@pytest.mark.parametrize("case", CASES["poser"])
async def test_each_part_needs_a_permission(case: JSON) -> None:
    cluster = Cluster(rbac=True)
    log_in(cluster, "poser")
    values = {"resourceNames": ["view"]}
    allow(
        cluster,
        "poser",
        rule("impersonate", "users", resourceNames=["jane"]),
        rule("impersonate", "groups", resourceNames=["devs"]),
        rule("impersonate", "userextras/scopes", AUTHENTICATION, **values),
        subject=user("poser"),
    )
    accounts = rule("impersonate", "serviceaccounts")
    allow(cluster, "a", accounts, subject=user("poser"), namespace="default")
    status, answer = await ask(cluster, "poser", "POST", WHO, {}, **case["headers"])
    assert answer.get("message", "") == case["says"]
    assert status == (403 if case["says"] else 201), answer


@pytest.mark.parametrize("rbac", [True, False])
async def test_impersonation_without_a_user_is_refused(*, rbac: bool) -> None:
    headers = {"impersonate_group": "devs", "impersonate_extra_a": "b"}
    status, answer = await ask(
        Cluster(rbac=rbac), TOKEN, "GET", "/api", None, **headers
    )
    assert (status, answer["message"]) == (
        400,
        (
            'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs"}, '
            'Extra:map[string][]string{"a":[]string{"b"}}} without impersonating a '
            "user name"
        ),
    )


async def test_anonymous_users_cannot_impersonate(cluster: Cluster) -> None:
    headers = {"impersonate_user": "jane"}
    assert (await ask(cluster, "", "GET", "/api/v1/pods", None, **headers))[0] == 403
