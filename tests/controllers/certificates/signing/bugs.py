"""Deliberate bugs of the signing of requests."""

from collections.abc import Mapping, Sequence
from typing import Final

from cryptography import x509

from controller_manager.api.certificates.v1 import CertificateSigningRequest
from controller_manager.control.certificates.request import ParsedRequest
from controller_manager.controllers.certificates.signing import controller
from controller_manager.controllers.certificates.signing.controller import has_failed
from tests.simulation.planted import Bug

_SCENARIO: Final = "requests-are-decided"


def _approve_by_any_condition(request: CertificateSigningRequest) -> bool:
    """Take a denied request for an approved one."""
    return bool(request.status.conditions)


def _refuse_nothing(_: str, __: ParsedRequest, ___: Sequence[str]) -> str | None:
    return None


def _add_a_purpose(_: Sequence[str]) -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage(
        [
            x509.ObjectIdentifier("1.3.6.1.5.5.7.3.1"),
            x509.ObjectIdentifier("1.3.6.1.5.5.7.3.2"),
        ]
    )


def _forget_the_subject(_: x509.Name) -> x509.Name:
    return x509.Name([])


BUGS: Final[Mapping[str, Bug]] = {
    "sign what nobody approved": Bug(
        0,
        controller,
        "is_approved",
        lambda request: not has_failed(request),
        _SCENARIO,
    ),
    "sign what was denied": Bug(
        0, controller, "is_approved", _approve_by_any_condition, _SCENARIO
    ),
    "refuse no request": Bug(
        0, controller, "refusal_reason", _refuse_nothing, _SCENARIO
    ),
    "issue for other purposes": Bug(
        0, controller, "extended_key_usage", _add_a_purpose, _SCENARIO
    ),
    "issue for nobody": Bug(0, controller, "_subject", _forget_the_subject, _SCENARIO),
    "sign nothing": Bug(
        0, controller, "_waits_for_signature", lambda _: False, _SCENARIO
    ),
}
