"""Requests, and the rights of which their user must have one."""

from typing import Any, Final, NamedTuple

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
from tests.controllers.certificates.authorities import CLIENT_USAGES, SERVING_USAGES

NODE: Final = "system:node:n1"
_NO_RSA: Final = ("digital signature", "client auth")
_BOTH: Final = ("selfnodeclient", "nodeclient")
_OTHER: Final = ("nodeclient",)


class Case(NamedTuple):
    """A request of a user, and its rights in the order of the checks."""

    what: str
    rights: tuple[str, ...]
    user: str = NODE
    signer: str = KUBELET_CLIENT
    usages: tuple[str, ...] = CLIENT_USAGES
    request: dict[str, Any] = {}  # noqa: RUF012 - a case does not change


CASES: Final = (
    Case("a node for itself", _BOTH),
    Case(
        "a node for itself, without RSA",
        _BOTH,
        usages=("digital signature", "client auth"),
    ),
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
    Case(
        "a node that is a master, too",
        (),
        request={"organizations": ("system:nodes", "system:masters")},
    ),
    Case("a DNS name", (), request={"dns": ("n1",)}),
    Case("an address", (), request={"addresses": ("10.0.0.1",)}),
    Case("an email", (), request={"emails": ("a@b.c",)}),
    Case("a URI", (), request={"uris": ("spiffe://a/b",)}),
    Case("a usage too many", (), usages=(*CLIENT_USAGES, "server auth")),
    Case("a usage too few", (), usages=("client auth",)),
    Case("no usages", (), usages=()),
    Case("usages of a server", (), usages=SERVING_USAGES),
    Case(
        "a server",
        (),
        signer=KUBELET_SERVING,
        usages=SERVING_USAGES,
        request={"dns": ("n1",)},
    ),
    Case("a client", (), signer=KUBE_APISERVER_CLIENT, usages=("client auth",)),
    Case("an old signer", (), signer=LEGACY_UNKNOWN),
    Case("another signer", (), signer="example.com/signer"),
    Case("no signer", (), signer=""),
)
