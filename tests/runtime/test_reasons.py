"""What an object waits for: as a value, and in the log."""

import io
import json
from datetime import UTC, datetime

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, Deployment
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import ObjectMeta
from controller_manager.observability.logs import make_logger
from controller_manager.runtime.outcome import Done, Reason, log_reasons, waiting

WEB = Deployment(metadata=ObjectMeta(name="web", namespace="default", uid="d"))
ABOUT = ObjectReference(
    api_version="apps/v1", kind="Deployment", name="web", namespace="default", uid="d"
)


def test_a_reason_names_the_kind_that_a_cached_object_does_not_carry() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert waiting(DEPLOYMENTS, WEB, "a pod", "2026-01-01T12:00:00Z") == Reason(
        "a pod", noon, ABOUT
    )


@pytest.mark.parametrize(("verbosity", "count"), [(3, 0), (4, 2)])
def test_reasons_are_logged_at_level_four(verbosity: int, count: int) -> None:
    stream = io.StringIO()
    logger = make_logger(output="json", verbosity=verbosity, stream=stream)
    reasons = (
        waiting(DEPLOYMENTS, WEB, "two more"),
        waiting(DEPLOYMENTS, WEB, "the rest", "2026-01-01T12:00:00Z"),
    )
    log_reasons(Done(reasons=reasons), logger)
    keys = ("msg", "v", "waiting_for", "since", "kind", "object")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    about, noon = ["Deployment", "default/web"], "2026-01-01 12:00:00+00:00"
    assert [[line[key] for key in keys] for line in lines] == [
        ["Waiting", 4, "two more", None, *about],
        ["Waiting", 4, "the rest", noon, *about],
    ][:count]
