"""Requests, and what the signers make of them: upstream's own words, or a signature."""

from typing import Any, Final, NamedTuple

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
from tests.controllers.certificates.authorities import CLIENT_USAGES, SERVING_USAGES

_NO_RSA: Final = ("digital signature", "client auth")
_SERVING_NO_RSA: Final = ("digital signature", "server auth")
_ORGANIZATION: Final = "subject organization is not system:nodes"
_NAME: Final = "subject common name does not begin with system:node:"
_CLIENT: Final = "usages did not match [client auth digital signature key encipherment]"
_SERVING: Final = (
    "usages did not match [digital signature key encipherment server auth]"
)


class Case(NamedTuple):
    """A request for a signer, which signs it if `problem` is None."""

    what: str
    signer: str
    usages: tuple[str, ...]
    problem: str | None = None
    request: dict[str, Any] = {}  # noqa: RUF012 - a case does not change


def _jane(what: str, usages: tuple[str, ...], problem: str | None = None) -> Case:
    request = {"common_name": "jane", "organizations": ("devs",)}
    return Case(what, KUBE_APISERVER_CLIENT, usages, problem, request)


def _client(what: str, problem: str | None = None, **request: Any) -> Case:
    return Case(what, KUBELET_CLIENT, CLIENT_USAGES, problem, request)


def _serving(what: str, problem: str | None = None, **request: Any) -> Case:
    names = {"dns": ("n1.example.com",), "addresses": ("10.0.0.7",)}
    return Case(what, KUBELET_SERVING, SERVING_USAGES, problem, names | request)


CASES: Final = (
    _jane("a client", ("client auth",)),
    _jane("a client with all usages", CLIENT_USAGES),
    _jane(
        "a client that serves",
        ("client auth", "server auth"),
        "invalid usage for client certificate: server auth",
    ),
    _jane(
        "a client that signs certificates",
        ("cert sign", "any"),
        "invalid usage for client certificate: cert sign",
    ),
    _jane(
        "no client",
        ("digital signature",),
        "missing required usage for client certificate: client auth",
    ),
    _client("a kubelet"),
    Case("a kubelet without RSA", KUBELET_CLIENT, _NO_RSA),
    Case("usages in another order", KUBELET_CLIENT, CLIENT_USAGES[::-1]),
    Case("a kubelet that serves", KUBELET_CLIENT, SERVING_USAGES, _CLIENT),
    Case("one usage too many", KUBELET_CLIENT, (*CLIENT_USAGES, "any"), _CLIENT),
    Case("one usage too few", KUBELET_CLIENT, ("client auth",), _CLIENT),
    _client("no organization", _ORGANIZATION, organizations=()),
    _client("a master", _ORGANIZATION, organizations=("system:masters",)),
    _client(
        "a node that is a master, too",
        _ORGANIZATION,
        organizations=("system:nodes", "system:masters"),
    ),
    _client("another name", _NAME, common_name="jane"),
    _client("no name", _NAME, common_name=""),
    _client("half a name", _NAME, common_name="system:node"),
    _client("a DNS name", "DNS subjectAltNames are not allowed", dns=("a",)),
    _client(
        "an address", "IP subjectAltNames are not allowed", addresses=("10.0.0.1",)
    ),
    _client("an email", "Email subjectAltNames are not allowed", emails=("a@b.c",)),
    _client("a URI", "URI subjectAltNames are not allowed", uris=("spiffe://a/b",)),
    _client(
        "what is wrong first",
        "DNS subjectAltNames are not allowed",
        dns=("a",),
        uris=("spiffe://a/b",),
        common_name="jane",
    ),
    _serving("a kubelet's server"),
    _serving("a server with a name only", addresses=()),
    _serving("a server with an address only", dns=()),
    Case(
        "a server without RSA",
        KUBELET_SERVING,
        _SERVING_NO_RSA,
        request={"dns": ("n1",)},
    ),
    _serving(
        "a server without names",
        "DNS or IP subjectAltName is required",
        dns=(),
        addresses=(),
    ),
    _serving(
        "a server with an email",
        "Email subjectAltNames are not allowed",
        emails=("a@b.c",),
    ),
    _serving(
        "a server with a URI",
        "URI subjectAltNames are not allowed",
        uris=("spiffe://a/b",),
    ),
    _serving("a server of devs", _ORGANIZATION, organizations=("devs",)),
    _serving("a server of jane's", _NAME, common_name="jane"),
    Case(
        "usages before the name",
        KUBELET_SERVING,
        ("server auth",),
        _SERVING,
        {"dns": ("n1",), "common_name": "jane"},
    ),
    Case(
        "anything",
        LEGACY_UNKNOWN,
        ("cert sign", "any", "decipher only"),
        request={"common_name": "jane", "organizations": ("system:masters",)},
    ),
)
