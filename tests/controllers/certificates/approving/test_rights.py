"""The rights that allow a request."""

import pytest

from controller_manager.api.certificates.v1 import CertificateSigningRequestSpec
from controller_manager.control.certificates.request import parse_request
from controller_manager.controllers.certificates.approving.controller import rights
from tests.controllers.certificates.approving.decisions import CASES, Case
from tests.controllers.certificates.authorities import request_for


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_request_needs_the_rights_that_upstream_checks(case: Case) -> None:
    """They are those of the recognizers in sarapprove.go."""
    request = request_for(**case.request)
    spec = CertificateSigningRequestSpec(
        request=request,
        signer_name=case.signer,
        usages=case.usages,
        username=case.user,
    )
    found = rights(spec, parse_request(request))
    assert tuple(each.subresource for each in found) == case.rights
