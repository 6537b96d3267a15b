"""Requests that are carried out as another user."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import TOKEN, Cluster
from tests.devcluster.registry.rbac.requests import allow, ask, log_in, rule, user

pytestmark = pytest.mark.looptime

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
AUTHENTICATION = "authentication.k8s.io"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            {"impersonate_user": "jane"},
            {"username": "jane", "groups": ["system:authenticated"]},
        ),
        (
            {
                "impersonate_user": "jane",
                "impersonate_group": "devs\nops",
                "impersonate_uid": "7",
                "impersonate_extra_scopes": "view\nedit",
                "impersonate_extra_acme.com%2fproject": "x",
            },
            {
                "username": "jane",
                "uid": "7",
                "groups": ["devs", "ops", "system:authenticated"],
                "extra": {"acme.com/project": ["x"], "scopes": ["view", "edit"]},
            },
        ),
        (
            {"impersonate_user": "system:serviceaccount:a:bot"},
            {
                "username": "system:serviceaccount:a:bot",
                "groups": [
                    "system:serviceaccounts",
                    "system:serviceaccounts:a",
                    "system:authenticated",
                ],
            },
        ),
        (
            {
                "impersonate_user": "system:serviceaccount:a:bot",
                "impersonate_group": "system:masters",
            },
            {
                "username": "system:serviceaccount:a:bot",
                "groups": ["system:masters", "system:authenticated"],
            },
        ),
    ],
)
async def test_an_administrator_acts_as_any_user(
    headers: dict[str, str], expected: JSON
) -> None:
    """The groups are added that the user would have."""
    cluster = Cluster(rbac=True)
    # The impersonated user may ask for its identity.
    status, answer = await ask(cluster, TOKEN, "POST", WHO, {}, **headers)
    assert (status, answer["status"]["userInfo"]) == (201, expected)


async def test_an_administrator_acts_as_the_anonymous_user() -> None:
    """The anonymous user is in the group system:unauthenticated."""
    cluster = Cluster(rbac=True)
    headers = {"impersonate_user": "system:anonymous"}
    status, answer = await ask(cluster, TOKEN, "POST", WHO, {}, **headers)
    assert status == 403
    assert 'User "system:anonymous" cannot create' in answer["message"]
    status, _ = await ask(cluster, TOKEN, "GET", "/version", None, **headers)
    assert status == 200


def cannot(resource: str, name: str, group: str = "") -> str:
    """Return the refusal of a part of a user."""
    plain = resource.partition("/")[0]
    shown = f"{plain}.{group}" if group else plain
    return (
        f'{shown} "{name}" is forbidden: User "poser" cannot impersonate resource '
        f'"{resource}" in API group "{group}" at the cluster scope'
    )


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"impersonate_user": "jane"}, ""),
        ({"impersonate_user": "bob"}, cannot("users", "bob")),
        (
            {"impersonate_user": "jane", "impersonate_group": "devs\nsystem:masters"},
            cannot("groups", "system:masters"),
        ),
        ({"impersonate_user": "jane", "impersonate_group": "devs"}, ""),
        (
            {"impersonate_user": "jane", "impersonate_uid": "7"},
            cannot("uids", "7", AUTHENTICATION),
        ),
        ({"impersonate_user": "jane", "impersonate_extra_scopes": "view"}, ""),
        (
            {"impersonate_user": "jane", "impersonate_extra_scopes": "view\nedit"},
            cannot("userextras/scopes", "edit", AUTHENTICATION),
        ),
        (
            {
                "impersonate_user": "system:serviceaccount:a:bot",
                "impersonate_group": "devs",
            },
            (
                'serviceaccounts "bot" is forbidden: User "poser" cannot impersonate '
                'resource "serviceaccounts" in API group "" in the namespace "a"'
            ),
        ),
        ({"impersonate_user": "system:serviceaccount:default:bot"}, ""),
        (
            {"impersonate_user": "system:serviceaccount:a"},
            cannot("users", "system:serviceaccount:a"),
        ),
        ({"impersonate_user": "system:node:n"}, cannot("users", "system:node:n")),
    ],
)
async def test_each_part_needs_a_permission(
    headers: dict[str, str], message: str
) -> None:
    """Users, groups, uids, accounts and each value of an extra, by name."""
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
    status, answer = await ask(cluster, "poser", "POST", WHO, {}, **headers)
    assert answer.get("message", "") == message
    assert status == (403 if message else 201), answer


@pytest.mark.parametrize("rbac", [True, False])
async def test_impersonation_without_a_user_is_refused(*, rbac: bool) -> None:
    """Groups, extras and uids belong to a user."""
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
    """Also if all other users may do everything."""
    headers = {"impersonate_user": "jane"}
    assert (await ask(cluster, "", "GET", "/api/v1/pods", None, **headers))[0] == 403
