"""The pytest plugin, in the tests of another project."""

import os
import tomllib
from importlib import import_module
from pkgutil import walk_packages

import pytest

import controller_manager
from tests.devcluster.rows import rows
from tests.distributions import PLUGIN, ROOT, plugin_arguments

pytest_plugins = ("pytester",)

BARE = ("--devcluster-controllers=none", "--devcluster-nodes=0")


@pytest.fixture(autouse=True, scope="module")
def _everything_is_imported() -> None:
    """Later tests would get second copies of modules, and of the types in them.

    Pytester forgets the modules that were imported first in the tests that it runs.
    """
    for each in walk_packages(controller_manager.__path__, "controller_manager."):
        if not each.name.endswith(".__main__"):
            import_module(each.name)


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    """Run tests as another project does."""
    pytester.makepyfile(source)
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    return pytester.runpytest_inprocess(
        *plugin_arguments(), "-p", "no:randomly", *arguments
    )


def test_the_distribution_has_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"devcluster": PLUGIN}


@pytest.mark.slow
def test_the_fixtures_are_a_cluster_a_namespace_and_faults(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In plain tests and in coroutines; KUBECONFIG is set while the cluster runs."""
    monkeypatch.setenv("KUBECONFIG", "mine")
    result = run(
        pytester,
        """
        import os

        from kubernetes_asyncio import client, config
        from tests.devcluster.testing.calls import Caller

        seen = []

        def test_plain(cluster, kubeconfig, namespace, faults):
            assert os.environ["KUBECONFIG"] == str(kubeconfig)
            caller = Caller(kubeconfig)
            maps = f"/api/v1/namespaces/{namespace}/configmaps"
            caller.add("ConfigMap", maps, "a")
            faults.refuse(503)
            assert caller.get(maps).status == 503
            seen.append(namespace)

        async def test_coroutine(cluster, namespace, faults):
            "The client read KUBECONFIG before; the fault of the other test is gone."
            assert faults.drop_watches() == 0
            async with await config.new_client_from_config() as api:
                core = client.CoreV1Api(api)
                names = [e.metadata.name for e in (await core.list_namespace()).items]
                maps = await core.list_config_map_for_all_namespaces()
            assert "a" not in [e.metadata.name for e in maps.items]
            assert namespace in names
            assert seen[0] not in names
        """,
        *BARE,
    )
    result.assert_outcomes(passed=2)
    assert os.environ["KUBECONFIG"] == "mine"


@rows("ini", "arguments", "changed")
def test_options_stand_in_the_ini_file_and_on_the_command_line(
    pytester: pytest.Pytester, ini: str, arguments: list[str], changed: str
) -> None:
    pytester.makepyfile(
        f"""
        from controller_manager.devcluster.testing import ClusterSettings

        def test_settings(devcluster_settings):
            assert devcluster_settings == ClusterSettings({changed})
        """
    )
    pytester.makeini(f"[pytest]\nasyncio_default_fixture_loop_scope=function\n{ini}\n")
    result = pytester.runpytest_inprocess(*plugin_arguments(), *arguments)
    result.assert_outcomes(passed=1)


@rows("argument", "line")
def test_an_error_of_a_user_gives_one_line(
    pytester: pytest.Pytester, argument: str, line: str
) -> None:
    result = run(pytester, "def test_it(cluster): pass", argument)
    result.assert_outcomes(errors=1)
    shown = [each for each in result.outlines if each.startswith("devcluster: ")]
    assert len(shown) == 1
    result.stdout.fnmatch_lines([f"devcluster: {line}"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_without_the_extra_one_line_says_how_to_install_it(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
        import sys

        for each in list(sys.modules):
            if each.startswith("controller_manager.devcluster"):
                del sys.modules[each]
        sys.modules["re2"] = None
        """
    )
    result = run(
        pytester, "def test_it(cluster): pass\n\ndef test_other(): pass", *BARE
    )
    result.assert_outcomes(errors=1, passed=1)
    shown = [each for each in result.outlines if each.startswith("devcluster: ")]
    assert shown == [
        (
            "devcluster: the development cluster needs the package re2; install it in "
            "a checkout of this project with: pip install '.[devcluster]'"
        )
    ]
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 8 has no such table")
def test_a_number_in_toml_that_pytest_refuses_is_one_line(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("def test_it(cluster): pass")
    settings = 'asyncio_default_fixture_loop_scope = "function"\ndevcluster-nodes = 1\n'
    pytester.makepyprojecttoml(f"[tool.pytest]\n{settings}")
    result = pytester.runpytest_inprocess(*plugin_arguments(), "--rootdir=.")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["devcluster: *'devcluster-nodes' expects a string, got int: 1"]
    )


def test_a_fixture_of_the_project_goes_first(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def cluster():
            return "mine"
        """
    )
    result = run(pytester, "def test_it(cluster): assert cluster == 'mine'")
    result.assert_outcomes(passed=1)


def test_a_project_chooses_settings_in_its_conftest(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from controller_manager.devcluster.testing import ClusterSettings

        @pytest.fixture(scope="session")
        def devcluster_settings():
            return ClusterSettings(nodes=0, controllers=())
        """
    )
    result = run(
        pytester, "def test_it(cluster): assert cluster.settings.controllers == ()"
    )
    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_it_imports_nothing_before_its_first_use(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys

        def test_it():
            ours = "controller_manager"
            loaded = {each for each in sys.modules if each.split(".")[0] == ours}
            assert loaded == {
                "controller_manager",
                "controller_manager.devcluster",
                "controller_manager.devcluster.settings",
                "controller_manager.devcluster.testing",
                "controller_manager.devcluster.testing.plugin",
                "controller_manager.first_use",
            }
            heavy = {"msgspec", "kubernetes_asyncio", "cryptography", "aiohttp"}
            assert not heavy & set(sys.modules)
        """
    )
    result = pytester.runpytest_subprocess("-p", PLUGIN)
    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_each_worker_of_xdist_has_its_own_cluster(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import pathlib, pytest

        @pytest.mark.parametrize("number", range(2))
        def test_it(cluster, number):
            here = pathlib.Path(__file__).parent
            with (here / "urls").open("a") as file:
                file.write(cluster.url + "\\n")
        """
    )
    arguments = ("-p", PLUGIN, "-p", "xdist", *BARE, "-n2", "--dist=each")
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(passed=4)
    assert len(set((pytester.path / "urls").read_text().split())) == 2
