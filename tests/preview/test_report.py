"""The report of a preview: the page, the subcommand, the flags."""

import msgspec
import pytest
from click.testing import CliRunner

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.cli.flags import make_config as config_from_flags
from controller_manager.cli.preview import preview_command
from controller_manager.manager.preview import PreviewGroup
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import PreviewConfig
from controller_manager.preview.report import Report
from tests.clusters import Cluster, make_config
from tests.controllers.builders import deployment_json
from tests.controllers.user import User
from tests.preview.shadow import previewing, settle, shadow


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
