"""The names that authors import: which there are, and what they load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from controller_manager import sdk, testing
from tests.distributions import ROOT, environment

NAMES = """
APIError APIStruct AlreadyExists BY_NAMESPACE Client Clock CollectorRegistry Column
CompleteObject Condition Conflict ControllerContext ControllerOptions Counter DONE
Definition DependsOn Descriptor Done EventRecorder Failed Finalizer Flag For Gauge
Handler Handles Histogram Index Lister Maps Meta NORMAL NotFound ObjectMeta Outcome
OwnerReference Owns PatchType Projection RECORD_EVENTS Reads Reconciler Requeue Resource
Scale SyncError WARNING allow apiextensions_v1 apps_v1 autoscaling_v2 batch_v1
coordination_v1 core_v1 discovery_v1 is_deleting key_of labels_of networking_v1 option
owned_by policy_v1 rbac_v1 run set_condition storage_v1
"""
NAMES_OF_TESTING = """
ClusterError ClusterSettings DevelopmentCluster Fault Faults RecordedRequest Requests
Snapshot TemporaryNamespace VirtualManager
"""


def test_the_names_are_these() -> None:
    """One that goes is announced in a release before; docs/sdk.md has the promise."""
    assert sorted(sdk.__all__) == sorted(NAMES.split())
    assert sorted(testing.__all__) == sorted(NAMES_OF_TESTING.split())


def imported(path: Path) -> dict[str, str]:
    """Return the names that a module imports for mypy, and where they are."""
    tree = ast.parse(path.read_text())
    (checked,) = (each for each in tree.body if ast.unparse(each).startswith("if TYPE"))
    return {
        alias.asname or alias.name: f"{each.module}.{alias.name}"
        if alias.asname
        else str(each.module)
        for each in ast.walk(checked)
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }


@pytest.mark.parametrize(
    ("module", "tables"),
    [
        (sdk, sdk._MODULES | sdk._GROUP_VERSIONS),
        (
            testing,
            dict.fromkeys(testing.__all__, "controller_manager.devcluster.testing"),
        ),
    ],
    ids=["sdk", "testing"],
)
def test_mypy_sees_what_is_imported(module: object, tables: dict[str, str]) -> None:
    file = ROOT / f"{module.__name__.replace('.', '/')}.py"  # type: ignore[attr-defined]
    assert imported(file) == tables
    assert sorted(tables) == sorted(module.__all__)  # type: ignore[attr-defined]


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        sdk.Nope  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import controller_manager.sdk", "controller_manager.api"),
        ("from controller_manager.sdk import Resource", "controller_manager.client"),
        ("from controller_manager.sdk import Descriptor", "controller_manager.manager"),
        ("from controller_manager.sdk import Reconciler", "aiohttp"),
        ("import controller_manager.testing", "controller_manager.devcluster"),
    ],
)
def test_a_name_loads_only_what_it_needs(code: str, absent: str) -> None:
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert absent not in done.stdout.split()


WRONG = """
from controller_manager.sdk import DONE, For, Lister, Outcome, Owns, Reconciler
from controller_manager.sdk import apps_v1, core_v1, nothing


class Wrong(Reconciler[core_v1.Namespace]):
    watches = (For(core_v1.NAMESPACES), Owns(apps_v1.DEPLOYMENTS))

    async def reconcile(self, namespace: core_v1.Namespace) -> Outcome:
        pods: Lister[core_v1.Pod] = self.lister(apps_v1.DEPLOYMENTS)
        pods.get("default", "web")
        return self.objects.get("", namespace.spec.no_such_field) or DONE
"""


@pytest.mark.slow
def test_mypy_finds_a_wrong_lister_a_wrong_field_and_a_wrong_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "wrong.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout
    assert 'has no attribute "nothing"' in lines
    assert '"Resource[Deployment]"; expected "Resource[Pod]"' in lines
    assert 'has no attribute "no_such_field"' in lines
    assert 'got "Namespace | Done"' in lines, lines
