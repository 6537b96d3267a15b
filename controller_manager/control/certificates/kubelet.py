"""Rules for requests of kubelets (pkg/apis/certificates/helpers.go).

Each function returns the rule that a request breaks, in upstream's words, or `None`.
"""

from collections.abc import Iterable
from typing import Final

from .request import ParsedRequest

_ORGANIZATION: Final = "system:nodes"
_NODE: Final = "system:node:"

_WRONG_ORGANIZATION: Final = "subject organization is not system:nodes"
_WRONG_NAME: Final = "subject common name does not begin with system:node:"

_SIGNATURE: Final = "digital signature"
_ENCIPHERMENT: Final = "key encipherment"
_CLIENT: Final = frozenset((_SIGNATURE, _ENCIPHERMENT, "client auth"))
_SERVING: Final = frozenset((_SIGNATURE, _ENCIPHERMENT, "server auth"))


def validate_kubelet_client(parsed: ParsedRequest, usages: Iterable[str]) -> str | None:
    """Validate a request for the client certificate of a kubelet."""
    names = parsed.names
    if parsed.organizations != (_ORGANIZATION,):
        return _WRONG_ORGANIZATION
    for kind, found in (
        ("DNS", names.dns),
        ("Email", names.emails),
        ("IP", names.addresses),
        ("URI", names.uris),
    ):
        if found:
            return f"{kind} subjectAltNames are not allowed"
    if not parsed.common_name.startswith(_NODE):
        return _WRONG_NAME
    return _validate_usages(usages, _CLIENT)


def validate_kubelet_serving(
    parsed: ParsedRequest, usages: Iterable[str]
) -> str | None:
    """Validate a request for the certificate of a kubelet's own server."""
    names = parsed.names
    if parsed.organizations != (_ORGANIZATION,):
        return _WRONG_ORGANIZATION
    if not names.dns and not names.addresses:
        return "DNS or IP subjectAltName is required"
    for kind, found in (("Email", names.emails), ("URI", names.uris)):
        if found:
            return f"{kind} subjectAltNames are not allowed"
    if (problem := _validate_usages(usages, _SERVING)) is not None:
        return problem
    return None if parsed.common_name.startswith(_NODE) else _WRONG_NAME


def _validate_usages(usages: Iterable[str], wanted: frozenset[str]) -> str | None:
    """Check that the usages are the wanted ones; key encipherment may be missing."""
    if frozenset(usages) in (wanted, wanted - {_ENCIPHERMENT}):
        return None
    return f"usages did not match [{' '.join(sorted(wanted))}]"
