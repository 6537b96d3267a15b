"""The examples do what their pages say, from the source tree and installed."""

import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.distributions import (
    EXAMPLE,
    OPERATORS,
    completed,
    environment,
    plugin_arguments,
    run_program,
)
from tests.http.test_over_http import get, start, token_of, wait_for
from tests.ports import free_port


@pytest.mark.slow
@pytest.mark.parametrize("example", [EXAMPLE, *OPERATORS], ids=lambda path: path.name)
def test_the_tests_of_an_example_pass(example: Path) -> None:
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    arguments = (*pytest_, *plugin_arguments(), "tests")
    result = completed(*arguments, cwd=example, env=environment(example))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("installed")
    # A copy: setuptools writes into the directory that it builds.
    source = directory / "source"
    shutil.copytree(EXAMPLE, source)
    target = directory / "target"
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--target")
    result = completed(sys.executable, "-m", "pip", "install", *options, target, source)
    assert result.returncode == 0, result.stdout + result.stderr
    return target


@pytest.mark.slow
def test_the_flag_of_an_installed_example_is_in_the_help(installed: Path) -> None:
    without = run_program("--help")
    shown = run_program("--help", directories=(installed,))
    indent = " " * 16
    section = (
        "\n\nShared-config-controller flags:\n\n"
        f"      --shared-config-namespace string\n{indent}"
        "The namespace whose config map shared-config is copied into all\n"
        f'{indent}others. (default "kube-system")\n\n'
    )
    before, found, after = shown.stdout.partition(section)
    assert found
    assert without.stdout == f"{before}\n\n{after}"


@pytest.mark.slow
def test_an_installed_example_runs_on_the_development_cluster(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is in /healthz, its metrics are in /metrics."""
    monkeypatch.setenv("PYTHONPATH", environment(installed)["PYTHONPATH"])
    kubeconfig, port = tmp_path / "kubeconfig", free_port()
    process = start(
        "devcluster",
        "--port=0",
        f"--secure-port={port}",
        f"--write-kubeconfig={kubeconfig}",
    )

    def health() -> list[str]:
        return get(port, "/healthz?verbose")[1].splitlines()

    name = "shared-config-controller"
    wait_for(lambda: kubeconfig.exists() and f"[+]{name} ok" in health(), process)
    metrics = get(port, "/metrics", token_of(kubeconfig))[1].splitlines()
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=10)[0]
    assert process.returncode == 0, output
    assert {
        'shared_config_writes_total{verb="create"} 0.0',
        'shared_config_writes_total{verb="update"} 0.0',
        f'workqueue_depth{{name="{name}"}} 0.0',
    } <= set(metrics)
