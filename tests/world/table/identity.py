"""Accounts, tokens, roles, and certificates."""

import base64
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
)
from controller_manager.api.certificates.v1beta1 import KUBE_APISERVER_SERVING
from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    SERVICE_ACCOUNT_TOKEN,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.controllers.certificates.clustertrustbundlepublisher.controller import (  # noqa: E501 - a long path
    bundle_name,
)
from controller_manager.controllers.identity.legacytokencleaner import TRACKING
from controller_manager.devcluster.apiserver.security import User
from tests.clusters import EPOCH, ROOT_CA
from tests.controllers.certificates.authorities import (
    CLIENT_USAGES,
    SERVING_USAGES,
    condition,
    request_for,
    signing_request,
)

from .row import Change, Parts, Rng, Row, gone, label, named, pod_spec

# Accounts and their tokens


def _account(name: str, _: Rng) -> Parts:
    secret = named(name, type=SERVICE_ACCOUNT_TOKEN)
    secret["metadata"]["annotations"] = {ACCOUNT_NAME: name}
    former = named(f"{name}-former", type=SERVICE_ACCOUNT_TOKEN)
    former["metadata"]["annotations"] = {ACCOUNT_NAME: name, ACCOUNT_UID: "former"}
    return [
        ("serviceaccounts", named(name, secrets=[{"name": name}])),
        ("secrets", secret),
        ("secrets", former),
    ]


def _spoil(obj: JSON, rng: Rng) -> None:
    key = rng.choice(("ca.crt", "namespace", "token"))
    obj.get("data", {}).pop(key, None)


ACCOUNTS: Final = Row(
    "serviceaccounts",
    _account,
    names=("cook", "smith"),
    changes={
        "spoil": Change("secrets", _spoil, weight=2),
        "revoke": Change("secrets", gone),
        "dismiss": Change("serviceaccounts", gone),
    },
    doomed=frozenset({"cook-former", "smith-former"}),
    weight=2,
)


def _legacy_token(name: str, rng: Rng) -> Parts:
    """Return a token of days ago; one is of a pod, and one of a user, who made it.

    Their use has been tracked for a week or since today, when nobody may judge yet.
    """
    secret = named(name, type=SERVICE_ACCOUNT_TOKEN)
    secret["metadata"]["annotations"] = {ACCOUNT_NAME: name}
    if name in _LABELS:
        secret["metadata"]["labels"] = dict([_LABELS[name]])
    listed = [] if name == "by-hand" else [{"name": name}]
    parts = [("serviceaccounts", named(name, secrets=listed)), ("secrets", secret)]
    if name == "mounted":
        volume = {"name": "token", "secret": {"secretName": name}}
        parts.append(("pods", named(name, pod_spec(volumes=[volume]))))
    if name == "by-hand":
        since = {"since": rng.choice(("2025-12-25", "2026-01-01"))}
        parts.append(("configmaps", named(TRACKING, data=since)))
    return parts


_LABELS: Final = {
    "used": ("kubernetes.io/legacy-token-last-used", "2026-01-01"),
    "invalid": ("kubernetes.io/legacy-token-invalid-since", "2025-12-25"),
    "restored": ("kubernetes.io/legacy-token-last-used", "2025-12-25"),
}


_OLD_TOKENS: Final = ("by-hand", "mounted", "unused", *_LABELS)
LEGACY_TOKENS: Final = Row(
    "legacy tokens",
    _legacy_token,
    names=_OLD_TOKENS,
    replaced=0,
    lasts=False,
    ages=dict.fromkeys(_OLD_TOKENS, timedelta(days=3)),
    home="kube-system",
    weight=2,
)


def _default_account(_: str, __: Rng) -> Parts:
    return []


DEFAULTS: Final = Row(
    "what each namespace has",
    _default_account,
    names=("default",),
    changes={
        "account": Change("serviceaccounts", label),
        "authority": Change(
            "configmaps",
            lambda obj, _: obj.get("data", {}).pop("ca.crt", None),
            name="kube-root-ca.crt",
        ),
        "another authority": Change(
            "configmaps",
            lambda obj, _: obj.setdefault("data", {}).update(more="x"),
            name="kube-root-ca.crt",
        ),
        "no authority": Change("configmaps", gone, name="kube-root-ca.crt"),
        "no account": Change("serviceaccounts", gone),
    },
    replaced=0,
)


def _encoded(**values: str) -> dict[str, str]:
    return {
        key.replace("_", "-"): base64.b64encode(value.encode()).decode()
        for key, value in values.items()
    }


def _bootstrap_token(name: str, _: Rng) -> Parts:
    """Return a token for nodes that join; one expires early, one has no time."""
    seconds = 90 if name == "abcdef" else 90000
    ends = format_time(EPOCH + timedelta(seconds=seconds))
    if name == "ghijkl":
        ends = "tomorrow"
    data = _encoded(
        token_id=name,
        token_secret="0123456789abcdef",
        expiration=ends,
        usage_bootstrap_signing="true",
    )
    secret: JSON = {
        "metadata": {"name": f"bootstrap-token-{name}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": data,
    }
    return [("secrets", secret)]


def _sign_no_more(obj: JSON, rng: Rng) -> None:
    obj["data"] |= _encoded(usage_bootstrap_signing=rng.choice(("true", "false")))


BOOTSTRAP_TOKENS: Final = Row(
    "bootstrap tokens",
    _bootstrap_token,
    names=("abcdef", "ghijkl", "uvwxyz"),
    doomed=frozenset({"bootstrap-token-ghijkl"}),
    changes={
        "usage": Change("secrets", _sign_no_more, name="bootstrap-token-{name}"),
    },
    lasts=False,
    needs=("cluster-info",),
    home="kube-system",
)


def _cluster_info(_: str, __: Rng) -> Parts:
    return [
        ("configmaps", named("cluster-info", data={"kubeconfig": "apiVersion: v1"}))
    ]


def _move(obj: JSON, rng: Rng) -> None:
    obj["data"]["kubeconfig"] = f"apiVersion: v{rng.randrange(9)}"


CLUSTER_INFO: Final = Row(
    "cluster-info",
    _cluster_info,
    names=("cluster-info",),
    changes={
        "move": Change("configmaps", _move),
    },
    home="kube-public",
    weight=0,
)


# Roles


def _rules(rng: Rng) -> list[JSON]:
    resources = rng.sample(("pods", "nodes", "secrets", "services"), 2)
    return [{"verbs": ["get"], "apiGroups": [""], "resources": resources}]


def _aggregated_role(name: str, _: Rng) -> Parts:
    selector = {"matchLabels": {f"to-{name}": "true"}}
    role = named(name, aggregationRule={"clusterRoleSelectors": [selector]})
    return [("clusterroles", role)]


def _source(name: str, rng: Rng) -> Parts:
    role = named(name, rules=_rules(rng))
    role["metadata"]["labels"] = _labels(rng)
    return [("clusterroles", role)]


def _labels(rng: Rng) -> dict[str, str]:
    names = rng.sample(("to-admins", "to-editors"), rng.randrange(3))
    return dict.fromkeys(names, "true")


def _change_source(obj: JSON, rng: Rng) -> None:
    obj["metadata"]["labels"], obj["rules"] = _labels(rng), _rules(rng)


AGGREGATED_ROLES: Final = Row(
    "aggregated roles",
    _aggregated_role,
    names=("admins", "editors"),
    changes={
        "meddle": Change("clusterroles", lambda obj, rng: obj.update(rules=_rules(rng)))
    },
    needs=("clusterroles",),
)
ROLES: Final = Row(
    "clusterroles",
    _source,
    names=("view", "logs"),
    changes={"change": Change("clusterroles", _change_source, weight=3)},
)


# Certificates

_REQUESTS: Final = "certificatesigningrequests"
NODE: Final = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
"""A user that the API server knows, who may approve its own requests."""


_AGES: Final = {"fresh": timedelta(hours=2), "ancient": timedelta(hours=25)}


def _request(name: str, _: Rng) -> Parts:
    """Return a request of a node, a server or a person, or one to be refused."""
    if name in ("kubelet", "thief", *_AGES):
        made = signing_request(name, request_for(), KUBELET_CLIENT, CLIENT_USAGES)
    elif name == "server":
        request = request_for(dns=("n1",))
        made = signing_request(name, request, KUBELET_SERVING, SERVING_USAGES)
    else:
        usages = ("client auth",) if name == "jane" else ("server auth",)
        request = request_for(common_name="jane", organizations=("devs",))
        made = signing_request(
            name, request, KUBE_APISERVER_CLIENT, usages, expirationSeconds=3600
        )
    return [(_REQUESTS, made)]


def _decide(kind: str) -> Any:
    def decide(obj: JSON, _: Rng) -> None:
        if not obj["status"].get("conditions"):
            obj["status"]["conditions"] = [condition(kind)]

    return decide


CERTIFICATES: Final = Row(
    _REQUESTS,
    _request,
    names=("kubelet", "jane", "server", "wrong", "thief", *_AGES),
    changes={
        "approve": Change(_REQUESTS, _decide("Approved"), "approval", weight=3),
        "deny": Change(_REQUESTS, _decide("Denied"), "approval"),
    },
    creators={
        "kubelet": NODE,
        **dict.fromkeys(("jane", "server", "wrong", "thief", *_AGES), User("jane")),
    },
    ages=_AGES,
    doomed=frozenset({"ancient"}),
)


def _pod_request(name: str, _: Rng) -> Parts:
    return [("podcertificaterequests", named(name, {"podName": name}))]


POD_CERTIFICATES: Final = Row(
    "podcertificaterequests",
    _pod_request,
    names=("one", "recent", "old"),
    replaced=2,
    ages={"recent": timedelta(minutes=14, seconds=5), "old": timedelta(minutes=16)},
    doomed=frozenset({"recent", "old"}),
)
_BUNDLES: Final = "clustertrustbundles"
_PUBLISHED: Final = bundle_name(KUBE_APISERVER_SERVING, ROOT_CA)


def _bundle(name: str, _: Rng) -> Parts:
    return [(_BUNDLES, named(name, {"trustBundle": ROOT_CA}))]


def _former_bundle(_: str, __: Rng) -> Parts:
    signer = KUBE_APISERVER_SERVING
    name = f"{signer.replace('/', ':')}:former"
    return [(_BUNDLES, named(name, {"signerName": signer, "trustBundle": ROOT_CA}))]


FORMER_BUNDLES: Final = Row(
    "bundles of a former authority",
    _former_bundle,
    names=("former",),
    doomed=frozenset({f"{KUBE_APISERVER_SERVING.replace('/', ':')}:former"}),
    weight=0,
)


def _halve(obj: JSON, _: Rng) -> None:
    obj["spec"]["trustBundle"] = ROOT_CA[: len(ROOT_CA) // 2]


BUNDLES: Final = Row(
    _BUNDLES,
    _bundle,
    names=("of-a-user",),
    changes={
        "edit": Change(_BUNDLES, _halve),
        "edit the published one": Change(_BUNDLES, _halve, name=_PUBLISHED, weight=2),
        "delete the published one": Change(_BUNDLES, gone, name=_PUBLISHED),
    },
    needs=("bundles of a former authority",),
)

ROWS: Final[tuple[Row, ...]] = (
    ACCOUNTS,
    LEGACY_TOKENS,
    DEFAULTS,
    BOOTSTRAP_TOKENS,
    CLUSTER_INFO,
    AGGREGATED_ROLES,
    ROLES,
    CERTIFICATES,
    POD_CERTIFICATES,
    FORMER_BUNDLES,
    BUNDLES,
)
