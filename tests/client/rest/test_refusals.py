"""Refusals for the sake of an object are told from failures that an operator mends."""

from pathlib import Path

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Status
from controller_manager.client.rest import errors
from controller_manager.runtime.outcome import SyncError

DATA = Path(__file__).parents[2] / "data"

QUOTA = (
    'pods "web-" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, '
    "limited: pods=1"
)

ANSWERS = yaml.safe_load((DATA / "refusals.yaml").read_text())


def error(code: int, reason: str, message: str) -> errors.APIError:
    return errors.error_from_status(Status(code=code, reason=reason, message=message))


@pytest.mark.parametrize(
    "answer", ANSWERS["refused"], ids=lambda answer: answer["message"][:60]
)
def test_quota_validation_and_admission_refuse_an_object(answer: JSON) -> None:
    assert errors.is_refusal(error(**answer))


@pytest.mark.parametrize(
    "answer", ANSWERS["failed"], ids=lambda answer: answer["message"][:60]
)
def test_missing_rights_and_failures_are_no_refusals(answer: JSON) -> None:
    """Also if admission asks for the right, or a proxy chooses the code."""
    assert not errors.is_refusal(error(**answer))


def test_a_long_hostile_message_is_read_in_a_moment() -> None:
    """A tenant chooses the values in it; the time grows with its length only."""
    for start in ('forbidden: User "', 'a "', 'admission webhook "'):
        message = start * 200_000
        assert errors.is_refusal(error(403, "Forbidden", message))
        assert errors.is_refusal(error(422, "Invalid", message))


def test_an_answer_of_no_api_server_is_no_refusal() -> None:
    assert not errors.is_refusal(errors.error_from_response(403, b"forbidden", None))
    assert not errors.is_refusal(errors.error_from_response(422, b"", None))


def test_the_cause_of_an_error_counts() -> None:
    refused = SyncError("pod default/web-0, ephemeral volume data: create PVC: quota")
    refused.__cause__ = error(403, "Forbidden", QUOTA)
    outer = SyncError("not synced")
    outer.__cause__ = refused
    assert errors.is_refusal(outer)
    assert not errors.is_refusal(SyncError("exceeded quota"))
    assert not errors.is_refusal(errors.TransportError("no answer"))
    assert not errors.is_refusal(None)


def test_several_failures_are_a_refusal_only_if_all_are() -> None:
    quota, other = error(403, "Forbidden", QUOTA), error(422, "Invalid", "is invalid")
    lost = errors.TransportError("no answer")
    assert errors.gravest([quota, other]) is quota
    assert errors.gravest([quota, lost, other]) is lost
    assert errors.gravest([]) is None
