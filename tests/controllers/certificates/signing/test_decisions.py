"""Requests that signers refuse, and requests that they sign."""

import pytest

from controller_manager.control.certificates.request import parse_request
from controller_manager.controllers.certificates.signing.controller import (
    refusal_reason,
)
from tests.controllers.certificates.authorities import request_for
from tests.controllers.certificates.signing.decisions import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_signer_refuses_what_upstream_refuses(case: Case) -> None:
    """In the same words."""
    parsed = parse_request(request_for(**case.request))
    assert parsed.is_signed()
    assert refusal_reason(case.signer, parsed, case.usages) == case.problem
