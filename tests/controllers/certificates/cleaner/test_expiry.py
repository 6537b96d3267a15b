"""The times at which requests are deleted, as a table."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from controller_manager.api.certificates.v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import format_time
from controller_manager.controllers.certificates.cleaner.controller import expires_at
from tests.controllers.certificates.authorities import certificate_for

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_KEY = ec.generate_private_key(ec.SECP256R1())


def ends(when: datetime) -> str:
    """Return a certificate that ends then, as it stands in a status."""
    pem = certificate_for(_KEY, ends=when).public_bytes(Encoding.PEM)
    return base64.b64encode(pem).decode()


VALID = ends(NOW + timedelta(days=30))
EXPIRED = ends(NOW - timedelta(minutes=1))
GARBAGE = base64.b64encode(b"garbage").decode()


def _ago(minutes: float) -> str:
    return format_time(NOW - timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("minutes", "certificate", "conditions", "goes"),
    [
        pytest.param(1, VALID, {"Approved": 50}, False, id="issued"),
        pytest.param(1, VALID, {"Approved": 61}, True, id="issued long ago"),
        pytest.param(1, None, {"Approved": 50}, False, id="approved"),
        pytest.param(9999, None, {"Approved": 23 * 60}, False, id="approved today"),
        pytest.param(1, None, {"Approved": 24 * 60 + 1}, True, id="approved long ago"),
        pytest.param(1, "", {"Approved": 24 * 60 + 1}, True, id="empty certificate"),
        pytest.param(
            1, None, {"Approved": 9999, "Denied": 1}, True, id="approved, then denied"
        ),
        pytest.param(1, EXPIRED, {"Approved": 50}, True, id="expired"),
        pytest.param(1, EXPIRED, {}, False, id="expired, but approved by nobody"),
        pytest.param(1, GARBAGE, {"Approved": 50}, False, id="garbage"),
        pytest.param(1, GARBAGE, {"Approved": 61}, True, id="garbage long ago"),
        pytest.param(1, "?", {"Approved": 50}, False, id="no base64"),
        pytest.param(1, None, {"Denied": 50}, False, id="denied"),
        pytest.param(1, None, {"Denied": 61}, True, id="denied long ago"),
        pytest.param(1, None, {"Failed": 50}, False, id="failed"),
        pytest.param(1, None, {"Approved": 90, "Failed": 50}, False, id="failed late"),
        pytest.param(1, None, {"Approved": 90, "Failed": 61}, True, id="failed early"),
        pytest.param(5 * 60, None, {}, False, id="pending"),
        pytest.param(24 * 60 + 1, None, {}, True, id="pending for a day"),
        pytest.param(9999, None, {"Other": 9999}, False, id="another condition"),
    ],
)
def test_a_request_is_deleted_when_upstream_deletes_it(
    minutes: float, certificate: str | None, conditions: dict[str, float], *, goes: bool
) -> None:
    """Cases of TestCleanerWithApprovedExpiredCSR, and more; times are minutes ago."""
    request = CertificateSigningRequest(
        metadata=ObjectMeta(name="a", creation_timestamp=_ago(minutes)),
        status=CertificateSigningRequestStatus(
            certificate=certificate,
            conditions=tuple(
                CertificateSigningRequestCondition(
                    type=kind, status="True", last_update_time=_ago(since)
                )
                for kind, since in conditions.items()
            ),
        ),
    )
    when = expires_at(request)
    assert (when is not None and when <= NOW) is goes
