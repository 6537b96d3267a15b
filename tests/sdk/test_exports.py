"""The names that authors import: which there are, and what they load."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from controller_manager import sdk, testing
from tests.distributions import environment

NAMES = """
APIError APIStruct AdmissionRequest AlreadyExists BY_NAMESPACE Client CollectorRegistry
Column CompleteObject Condition Conflict ControllerContext ControllerOptions Counter
DONE Definition DependsOn Descriptor Done FieldError Finalizer For Gauge Handler Handles
Histogram Index Lister Maps Meta Mutates NORMAL NotFound ObjectMeta Outcome
OwnerReference Owns Projection RECORD_EVENTS Reads Reconciler Refused Requeue Resource
Scale Spoke SyncError Validates WARNING allow apps_v1 autoscaling_v2 batch_v1 core_v1
is_deleting key_of labels_of networking_v1 option owned_by policy_v1 rbac_v1 run
set_condition
"""
NAMES_OF_TESTING = """
ClusterError ClusterSettings DevelopmentCluster Fault Faults RecordedRequest Requests
Snapshot TemporaryNamespace VirtualManager
"""


def test_the_names_are_these() -> None:
    """One that goes is announced in a release before; docs/sdk.md has the promise."""
    assert sorted(sdk.__all__) == sorted(NAMES.split())
    assert sorted(testing.__all__) == sorted(NAMES_OF_TESTING.split())


@pytest.mark.parametrize("module", [sdk, testing])
def test_each_name_can_be_imported(module: ModuleType) -> None:
    """What mypy sees is what there is: both read the imports of the module."""
    names = module.__all__
    assert [name for name in names if getattr(module, name, None) is None] == []
    assert all(name in vars(sdk) for name in sdk.__all__)


@pytest.mark.parametrize("module", [sdk, testing])
def test_an_unknown_name_is_an_error(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        module.Nope  # noqa: B018


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import controller_manager.sdk", "controller_manager.api"),
        ("from controller_manager.sdk import Resource", "controller_manager.client"),
        ("from controller_manager.sdk import Descriptor", "controller_manager.manager"),
        ("from controller_manager.sdk import Reconciler", "aiohttp"),
        ("import controller_manager.testing", "controller_manager.devcluster.cluster"),
    ],
)
def test_a_name_loads_only_what_it_needs(code: str, absent: str) -> None:
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert absent not in done.stdout.split()


WRONG = """
from controller_manager.sdk import DONE, For, Lister, Outcome, Owns, Reconciler
from controller_manager.sdk import AdmissionRequest, Definition, Mutates, Spoke
from controller_manager.sdk import Validates, apps_v1, core_v1, nothing


class Wrong(Reconciler[core_v1.Namespace]):
    watches = (For(core_v1.NAMESPACES), Owns(apps_v1.DEPLOYMENTS))

    async def reconcile(self, namespace: core_v1.Namespace) -> Outcome:
        pods: Lister[core_v1.Pod] = self.lister(apps_v1.DEPLOYMENTS)
        pods.get("default", "web")
        return self.objects.get("", namespace.spec.no_such_field) or DONE


def check(request: AdmissionRequest[core_v1.Namespace]) -> None: ...
def same(old: core_v1.ConfigMap) -> core_v1.ConfigMap:
    return old


Validates(core_v1.PODS, check)
Validates(core_v1.NAMESPACES, check, settings={"failurePolicy": "Perhaps"})
Mutates(core_v1.NAMESPACES, check)
Spoke(core_v1.NAMESPACES, same, same)
Definition(core_v1.NAMESPACES, versions=(Spoke(core_v1.CONFIG_MAPS, same, same),))
"""


@pytest.mark.slow
def test_mypy_finds_a_wrong_lister_a_wrong_name_and_a_wrong_function(
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
    assert 'expected "Callable[[AdmissionRequest[Pod]], ' in lines
    assert 'TypedDict item "failurePolicy" has type "Literal[\'Fail\',' in lines
    assert "Callable[[AdmissionRequest[Namespace]], Awaitable[Namespace] | " in lines
    assert 'Argument 3 to "Spoke" has incompatible type' in lines
    assert 'Cannot infer value of type parameter "HubT" of "Definition"' in lines
