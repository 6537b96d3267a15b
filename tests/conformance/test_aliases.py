"""A generated value has the same name in every run."""

import pytest

from tests.conformance.aliases import Aliases


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("tick-29454720", "tick-MINUTE"),
        ("port-8080", "port-8080"),
        ("2026-01-01T00:00:00Z", "TIME"),
        ("2026-01-01T00:00:00.123456Z", "TIME"),
        ("2026-01-01 00:00:00 +0000 UTC", "TIME"),
        ("2026-01-01T00:00:00+00:00", "TIME"),
        ("2026-01-01T00:00:00+05:30", "TIME+05:30"),
        ("Thu, 01 Jan 2026 00:00:00 +0000", "TIME"),
        ("-----BEGIN CERTIFICATE-----\\nabc\\n-----END CERTIFICATE-----\\n", "PEM:"),
        ("ds-n1 and ds-n2", "ANY and ANY"),
    ],
)
def test_what_differs_between_runs_is_replaced(text: str, alias: str) -> None:
    found = Aliases([r"ds-n\d"]).apply(text)
    assert found.partition("CERTIFICATE")[0] == alias
