"""Requests that are carried out as another user."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.security.authentication import User
from tests.clusters import TOKEN, Cluster
from tests.devcluster.kinds.rbac.requests import allow, ask, log_in, rule, user

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


def cannot_on(mode: str) -> str:
    """Return the refusal of the mode that is tried first."""
    return (
        'selfsubjectreviews.authentication.k8s.io is forbidden: User "poser" cannot '
        f'impersonate-on:{mode}:create resource "selfsubjectreviews" in API group '
        '"authentication.k8s.io" at the cluster scope'
    )


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"impersonate_user": "jane"}, ""),
        ({"impersonate_user": "bob"}, cannot_on("user-info")),
        (
            {"impersonate_user": "jane", "impersonate_group": "devs\nsystem:masters"},
            cannot_on("user-info"),
        ),
        ({"impersonate_user": "jane", "impersonate_group": "devs"}, ""),
        ({"impersonate_user": "jane", "impersonate_uid": "7"}, cannot_on("user-info")),
        ({"impersonate_user": "jane", "impersonate_extra_scopes": "view"}, ""),
        (
            {"impersonate_user": "jane", "impersonate_extra_scopes": "view\nedit"},
            cannot_on("user-info"),
        ),
        (
            {"impersonate_user": "system:serviceaccount:a:bot"},
            cannot_on("serviceaccount"),
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
        ({"impersonate_user": "system:serviceaccount:a"}, cannot_on("user-info")),
        ({"impersonate_user": "system:node:n"}, cannot_on("arbitrary-node")),
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


def part(mode: str, resource: str, name: str = "") -> JSON:
    """Return the rule that allows a part of a user in a mode."""
    names = {"resourceNames": [name]} if name else {}
    return rule(f"impersonate:{mode}", resource, AUTHENTICATION, **names)


PODS = "/api/v1/namespaces/default/pods"
NODE = "authentication.kubernetes.io/node-name"


@pytest.mark.parametrize(
    ("path", "headers", "message"),
    [
        (PODS, {"impersonate_user": "jane"}, ""),
        (PODS, {"impersonate_user": "jane", "impersonate_group": "devs"}, ""),
        (
            f"{PODS}/p",
            {"impersonate_user": "jane"},
            (
                'pods "p" is forbidden: User "helper" cannot '
                'impersonate-on:user-info:get resource "pods" in API group "" in the '
                'namespace "default"'
            ),
        ),
        (
            "/version",
            {"impersonate_user": "jane"},
            (
                'forbidden: User "helper" cannot impersonate-on:user-info:get path '
                '"/version"'
            ),
        ),
        (
            PODS,
            {"impersonate_user": "bob"},
            (
                'users.authentication.k8s.io "bob" is forbidden: User "helper" cannot '
                'impersonate:user-info resource "users" in API group '
                '"authentication.k8s.io" at the cluster scope'
            ),
        ),
        (
            PODS,
            {"impersonate_user": "jane", "impersonate_group": "system:masters"},
            (
                'groups.authentication.k8s.io "system:masters" is forbidden: User '
                '"helper" cannot impersonate:user-info resource "groups" in API group '
                '"authentication.k8s.io" at the cluster scope: impersonating the '
                "system:masters group is not allowed"
            ),
        ),
        (PODS, {"impersonate_user": "system:serviceaccount:default:bot"}, ""),
        (PODS, {"impersonate_user": "system:node:own"}, ""),
        (
            PODS,
            {"impersonate_user": "system:node:other"},
            (
                'pods is forbidden: User "helper" cannot '
                'impersonate-on:arbitrary-node:list resource "pods" in API group "" in '
                'the namespace "default"'
            ),
        ),
    ],
)
async def test_a_user_does_one_thing_as_another(
    path: str, headers: dict[str, str], message: str
) -> None:
    """As constrained impersonation allows; then the other user's permissions count."""
    cluster = Cluster(rbac=True)
    account = "system:serviceaccount:default:helper"
    everybody = ("system:authenticated",)
    extra = {NODE: ("own",)}
    cluster.server.tokens.add("helper", User(account, "1", everybody, extra))
    modes = ("user-info", "serviceaccount", "associated-node")
    verbs = " ".join(f"impersonate-on:{mode}:list" for mode in modes)
    allow(
        cluster,
        "helper",
        rule(verbs, "pods"),
        part("user-info", "users", "jane"),
        part("user-info", "groups"),
        part("serviceaccount", "serviceaccounts"),
        part("associated-node", "nodes"),
        subject=user(account),
    )
    everyone = {"kind": "Group", "name": "system:authenticated"}
    allow(cluster, "readers", rule("list", "pods"), subject=everyone)
    status, answer = await ask(cluster, "helper", "GET", path, None, **headers)
    assert answer.get("message", "") == message.replace("helper", account)
    assert status == (403 if message else 200)


async def test_the_user_of_an_impersonated_node_is_in_the_group_of_nodes() -> None:
    """As all nodes are."""
    headers = {"impersonate_user": "system:node:n"}
    _, answer = await ask(Cluster(rbac=True), TOKEN, "POST", WHO, {}, **headers)
    assert answer["status"]["userInfo"] == {
        "username": "system:node:n",
        "groups": ["system:nodes", "system:authenticated"],
    }


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
