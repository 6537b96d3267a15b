"""Divergences: their fields, their findings and their report."""

import asyncio
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.cli.flags import make_config as config_from_flags
from controller_manager.cli.preview import preview_command
from controller_manager.clock import LoopClock
from controller_manager.manager.preview import PreviewGroup
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import PreviewConfig
from controller_manager.preview import fields
from controller_manager.preview.contents import unlike
from controller_manager.preview.findings import (
    Difference,
    FieldDifference,
    Findings,
    PreviewMetrics,
)
from controller_manager.preview.report import Report
from controller_manager.preview.target import find_target
from tests.clusters import EPOCH, Cluster, make_config
from tests.controllers.builders import deployment_json
from tests.controllers.user import User
from tests.preview.shadow import previewing, settle, shadow

pytestmark = pytest.mark.looptime


@pytest.mark.looptime
async def test_the_page_is_text_or_json(cluster: Cluster) -> None:
    async with shadow(cluster, previewing(make_config())) as running:
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=1))
        await settle(80)
        page = running.manager._preview.page
        assert page is not None
        media_type, pieces = page({})
        assert media_type == "text/plain; charset=utf-8"
        text = b"".join(pieces).decode()
        assert "deployment-controller: update deployments.apps default/web" in text
        assert "    status.observedGeneration: preview 1, real absent\n" in text
        media_type, pieces = page({"output": ["json"]})
        assert media_type == "application/json"
        report = msgspec.json.decode(b"".join(pieces), type=Report)
        assert report == running.report
        for each in report.divergences:
            labels = {"controller": each.controller, "kind": each.kind}
            name = "preview_divergences_total"
            assert (running.registry.get_sample_value(name, labels) or 0) >= 1


def test_a_manager_that_writes_has_no_page() -> None:
    assert PreviewGroup(None, Defects(silent_logger())).page is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--server", "http://a"], "--server: must be https://HOST:PORT"),
        (["--server", "https://127.0.0.1:1"], "https://127.0.0.1:1: no answer: "),
        (["--token-file", "/none"], "--token-file: /none: No such file or directory"),
        (["--certificate-authority", "/none"], "/none: No such file or directory"),
    ],
)
def test_each_problem_is_one_line(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(preview_command, ["report", *arguments])
    assert result.exit_code == 1
    assert problem in result.output
    assert len(result.output.splitlines()) == 1


def test_a_preview_takes_no_lease_and_no_account_of_a_controller() -> None:
    flags = {"preview": ("true",), "use-service-account-credentials": ("true",)}
    config = config_from_flags(flags | {"preview-grace": ("10s",)}, [])
    assert config.preview == PreviewConfig(enabled=True, grace=10.0)
    assert not config.generic.leader_election.leader_elect
    assert any("with --preview" in each for each in config.warnings)
    config = config_from_flags({"preview-dry-run": ("true",)}, [])
    assert any("no effect without --preview" in each for each in config.warnings)


_TARGET = find_target("/api/v1/namespaces/default/persistentvolumeclaims")


def test_the_status_of_a_created_object_is_not_that_of_its_creator() -> None:
    assert _TARGET is not None
    sent: dict[str, Any] = {
        "metadata": {"name": "data-web-0", "labels": {"app": "web"}},
        "spec": {"volumeMode": "Block"},
        "status": {"phase": "Pending"},
    }
    real = {
        "metadata": {"name": "data-web-0", "labels": {"app": "other"}},
        "spec": {"volumeMode": "Filesystem", "volumeName": "disk"},
        "status": {"phase": "Bound"},
    }
    assert list(unlike(_TARGET.collection, real, sent, 1.0)) == [
        (("metadata", "labels", "app"), "web"),
        (("spec", "volumeMode"), "Block"),
    ]


READY = {"type": "Ready", "status": "True"}
OTHER = {"type": "Other", "status": "False"}


def test_a_difference_in_a_keyed_list_is_one_of_an_item() -> None:
    old = {"status": {"conditions": [READY, OTHER], "replicas": 1}}
    new = {"status": {"conditions": [OTHER, {**READY, "status": "False"}]}}
    found = dict(fields.differences(old, new))
    path = ("status", "conditions", fields.Item("type", "Ready"), "status")
    assert found == {path: "False", ("status", "replicas"): fields.REMOVED}
    assert fields.shown_path(path) == "status.conditions[type=Ready].status"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": [1]}}),
        ({}, {"status": {"conditions": [READY, OTHER]}}),
        ({"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["b"]}}),
        ({"status": {"conditions": [READY, OTHER]}}, {"status": {}}),
        ({"a": [1, 2]}, {"a": [2]}),
    ],
)
def test_the_differences_make_the_new_object_of_the_old_one(old: Any, new: Any) -> None:
    made = old
    for path, value in fields.differences(old, new):
        made = fields.with_value(made, path, value)
    assert fields.are_same(made, new, 0)
    for path, value in fields.differences(old, new):
        assert fields.are_same(fields.value_at(made, path), value, 0)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z", True),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:31Z", False),
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01Z", True),
        ([1, 2], [2, 1], True),
        ([1, 2], [1, 1], False),
        ({"a": None}, {}, True),
        ({"a": 0}, {"a": 1}, False),
        ("a", "b", False),
        ([{"at": "2026-01-01T00:00:00Z"}], [{"at": "2026-01-01T00:00:09Z"}], True),
    ],
)
def test_values_are_the_same_if_they_say_the_same(
    one: Any, other: Any, expected: bool
) -> None:
    assert fields.are_same(one, other, 30) is expected
    assert fields.are_same(other, one, 30) is expected


GRACE = 30.0
CREATION = Difference("job-controller", "Pod", "create", "preview", "pods a/b-* of b")


def findings() -> Findings:
    return Findings(
        LoopClock(EPOCH),
        PreviewMetrics(CollectorRegistry()),
        silent_logger(),
        grace=GRACE,
        most=10,
    )


def update(*fields: str) -> Difference:
    differing = tuple(FieldDifference(each, "1", "2") for each in fields)
    return Difference("job-controller", "Job", "update", "both", "jobs a/b", differing)


async def found(first: Difference, second: Difference, seconds: float) -> int:
    seen = findings()
    seen.report(first)
    await asyncio.sleep(seconds)
    seen.report(second)
    return len(seen)


async def test_a_write_that_is_made_again_in_vain_is_a_divergence() -> None:
    assert await found(CREATION, CREATION, GRACE + 1) == 1
    assert await found(update("status.ready"), update("status.ready"), GRACE + 1) == 1


async def test_several_writes_at_once_with_one_identity_are_one_suspicion() -> None:
    """The pods of a replica set that only the preview has created."""
    assert await found(CREATION, CREATION, 1) == 0


async def test_a_write_of_long_ago_is_no_sign_of_a_difference() -> None:
    assert await found(CREATION, CREATION, 5 * GRACE) == 0


async def test_another_timestamp_alone_follows_from_an_earlier_difference() -> None:
    first = update("status.active", "status.completionTime")
    assert await found(first, update("status.completionTime"), GRACE + 1) == 0
    time = update("status.completionTime")
    assert await found(time, time, GRACE + 1) == 1


async def test_a_certain_difference_counts_at_once() -> None:
    seen = findings()
    seen.report(CREATION, is_certain=True)
    assert [each.difference for each in seen] == [CREATION]
