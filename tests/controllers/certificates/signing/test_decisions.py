"""Requests that signers refuse, and requests that they sign."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    SIGNER_NAMES,
)
from controller_manager.control.certificates.request import (
    InvalidRequest,
    parse_request,
)
from controller_manager.controllers.certificates.signing.authority import Authority
from controller_manager.controllers.certificates.signing.controller import (
    issue,
    refusal_reason,
)
from tests.controllers.certificates.authorities import (
    CLIENT_USAGES,
    SERVING_USAGES,
    request_for,
)
from tests.controllers.certificates.der import (
    ADDRESS,
    BMP,
    COMMON_NAME,
    DNS,
    EMAIL,
    IA5,
    INTEGER,
    ORGANIZATION,
    PRINTABLE,
    TELETEX,
    URI,
    UTF8,
    Attribute,
    Name,
    alternative_names,
    element,
    identifier,
    in_pem,
    request_with,
)
from tests.controllers.certificates.signing.test_certificate import AUTHORITY, DAY, NOW
from tests.controllers.rows import rows

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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_signer_refuses_what_upstream_refuses(case: Case) -> None:
    parsed = parse_request(request_for(**case.request))
    assert parsed.is_signed()
    assert refusal_reason(case.signer, parsed, case.usages) == case.problem


JANE: Attribute = (COMMON_NAME, UTF8, b"jane")
DEVS: Attribute = (ORGANIZATION, UTF8, b"devs")


def issued(request: str, authority: Authority = AUTHORITY) -> x509.Certificate:
    parsed = parse_request(request)
    return x509.load_pem_x509_certificate(
        issue(authority, parsed, CLIENT_USAGES, DAY, NOW)
    )


def names_in(certificate: x509.Certificate) -> list[str]:
    extension = certificate.extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return [str(each.value) for each in extension.value]


@rows(
    "subject expected",
    {
        "repeated": ([[DEVS], [DEVS], [JANE]], "CN=jane,O=devs"),
        "in one set": ([[DEVS, (ORGANIZATION, UTF8, b"ops")]], "O=ops+O=devs"),
        "repeated in another type of text": (
            [[DEVS], [(ORGANIZATION, PRINTABLE, b"devs")]],
            "O=devs",
        ),
        "two common names": ([[JANE], [(COMMON_NAME, UTF8, b"joe")]], "CN=joe"),
        "an empty name": ([[(COMMON_NAME, UTF8, b"")]], ""),
        "emptied": ([[JANE], [(COMMON_NAME, UTF8, b"")]], ""),
        "two bytes each": ([[(COMMON_NAME, BMP, "é".encode("utf-16be"))]], "CN=é"),
        "ASCII": ([[(COMMON_NAME, IA5, b"a@b")]], "CN=a@b"),
        "unknown": ([[("1.2.3.4", UTF8, b"x")], [JANE]], "CN=jane"),
    },
)
def test_a_subject_is_copied_as_go_copies_it(
    subject: Sequence[Sequence[Attribute]], expected: str
) -> None:
    assert issued(request_with(subject)).subject.rfc4514_string() == expected


@pytest.mark.parametrize(
    "name",
    [
        (EMAIL, b"no address"),
        (EMAIL, b""),
        (DNS, b""),
        (DNS, b"*.a b"),
        (URI, b"spiffe://cluster.local/ns/x"),
        (ADDRESS, b"\x0a\x00\x00\x01"),
    ],
    ids=str,
)
def test_an_alternative_name_is_copied_byte_by_byte(name: Name) -> None:
    certificate = issued(request_with([[JANE]], [alternative_names([name])]))
    extension = certificate.extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert extension.value.public_bytes() == element(0x30, element(*name))
    assert not extension.critical


@pytest.mark.parametrize("count", [1, 1000])
def test_a_request_may_have_many_names(count: int) -> None:
    names = [f"n{number}.example.com" for number in range(count)]
    certificate = issued(request_for("jane", ["devs"], dns=names))
    assert names_in(certificate) == names


@rows(
    "subject extensions",
    {
        "twice in one set": ([[DEVS, DEVS]], ()),
        "an empty set": ([[]], ()),
        "a number": ([[(COMMON_NAME, INTEGER, b"\1")]], ()),
        "no UTF-8": ([[(COMMON_NAME, UTF8, b"\xff")]], ()),
        "Latin 1": ([[(COMMON_NAME, TELETEX, b"\xe9")]], ()),
        "not printable": ([[(COMMON_NAME, PRINTABLE, b"*.a")]], ()),
        "no address": ([[JANE]], [alternative_names([(ADDRESS, b"abc")])]),
        "not ASCII": ([[JANE]], [alternative_names([(DNS, b"\xff")])]),
        "no such name": ([[JANE]], [alternative_names([(0x89, b"x")])]),
        "the names twice": ([[JANE]], [alternative_names(())] * 2),
        "a broken extension": (
            [[JANE]],
            [element(0x30, identifier("2.5.29.15"), element(4, b"junk"))],
        ),
        "UTF-8": ([[JANE]], [alternative_names([(URI, "x://é".encode())])]),
    },
)
def test_what_cannot_be_read_is_refused_in_one_way(
    subject: Sequence[Sequence[Attribute]], extensions: Sequence[bytes]
) -> None:
    with pytest.raises(InvalidRequest, match="the request cannot be read"):
        parse_request(request_with(subject, extensions))


_TEXTS = st.binary(max_size=12) | st.sampled_from(
    [b"system:nodes", b"system:node:n1", b"system:masters", b"\xc3\xa9"]
)
_TAGS = st.sampled_from([UTF8, PRINTABLE, TELETEX, IA5, BMP, INTEGER, 0x18, 0x1A])
_KINDS = st.sampled_from([COMMON_NAME, ORGANIZATION, "2.5.4.6", "2.5.4.5", "1.2.3"])
_SUBJECTS = st.lists(st.lists(st.tuples(_KINDS, _TAGS, _TEXTS), max_size=3), max_size=4)
_NAMES = st.tuples(
    st.sampled_from([DNS, EMAIL, URI, ADDRESS, 0x88, 0x89, 0xA0, 0xA4]), _TEXTS
)
_EXTENSIONS = st.lists(
    st.lists(_NAMES, max_size=4).map(alternative_names)
    | st.binary(max_size=9).map(
        lambda junk: element(0x30, identifier("2.5.29.19"), element(4, junk))
    ),
    max_size=2,
)


def _is_refused_or_granted(request: str, signer: str) -> None:
    """Check that a request is unreadable, refused, or granted and not exceeded."""
    try:
        parsed = parse_request(request)
    except InvalidRequest:
        return
    assert parsed.is_signed()
    if refusal_reason(signer, parsed, CLIENT_USAGES) is not None:
        return
    certificate = issued(request)
    asked = {(each.oid, each.value) for each in parsed.subject}
    assert {(each.oid, each.value) for each in certificate.subject} <= asked
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert not constraints.value.ca
    names = parsed.names
    expected = [*names.dns, *names.emails, *map(str, names.addresses), *names.uris]
    assert not expected or names_in(certificate) == expected


@settings(deadline=None, max_examples=100)
@given(_SUBJECTS, _EXTENSIONS, st.sampled_from(SIGNER_NAMES))
@pytest.mark.filterwarnings("ignore:Attribute's length")
def test_a_signer_handles_every_request(
    subject: list[list[Attribute]], extensions: list[bytes], signer: str
) -> None:
    _is_refused_or_granted(request_with(subject, extensions), signer)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=64))
def test_data_that_are_no_asn1_are_refused(content: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_request(in_pem(content))
