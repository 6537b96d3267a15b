"""Gangs: the bodies of their objects, and their pods on a cluster in memory."""

from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
import pytest_asyncio

from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import controller_reference
from controller_manager.api.scheduling.v1alpha2 import (
    POD_GROUPS,
    WORKLOADS,
    PodGroup,
    Workload,
)
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.batch.job.gang_scheduling import (
    is_gang,
    is_new,
    pod_group_body,
    pod_group_name,
    workload_body,
    workload_name,
)
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.controllers.batch.job.builders import (
    Watcher,
    job,
    job_config,
    pod,
    standing,
    text,
)
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.user import settle
from tests.informers.test_informer import Faulty
from tests.runtime.silence import SilentWatches

GATES: Final = FeatureGates({"GenericWorkload": True, "WorkloadWithJob": True})
CONFIG: Final = replace(job_config(), features=GATES)


def config(*, enabled: bool = True) -> Config:
    return CONFIG if enabled else job_config()


GANG: Final[JSON] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


class GangUser(Watcher):
    """Sees workloads, groups, and the groups that pods name."""

    async def workloads(self) -> list[Workload]:
        return (await self.client.list_page(WORKLOADS)).items

    async def groups(self) -> list[PodGroup]:
        return (await self.client.list_page(POD_GROUPS)).items

    async def are_a_gang(self, pods: int) -> None:
        """Check that so many pods name the only group."""
        (group,) = await self.groups()
        assert await self.named() == [group.metadata.name] * pods

    async def named(self) -> list[str | None]:
        """Return the group that each pod names."""
        return [_group_of(each) for each in await self.pods()]

    async def submit_suspended(self, **spec: Any) -> str:
        """Create the job; return the name that its workload will have."""
        made = await self.run(**spec, suspend=True)
        return workload_name("j", made.metadata.uid)

    async def add_workloads_of_job(self, *names: str) -> None:
        reference = {"apiGroup": "batch", "kind": "Job", "name": "j"}
        for name in names:
            await self.add_workload(name, controllerRef=reference)

    async def add_workload(self, name: str, **spec: Any) -> None:
        template = {"name": "t", "schedulingPolicy": {"basic": {}}}
        whole = {"podGroupTemplates": [template], **spec}
        await self.create(WORKLOADS, {"metadata": {"name": name}, "spec": whole})


def _group_of(pod: Pod) -> str | None:
    group = pod.spec.scheduling_group
    return None if group is None else group.pod_group_name


@pytest.mark.looptime
@scenarios("batch/gangs")
async def test_pods_of_a_job_are_a_gang(scenario: Scenario) -> None:
    await scenario.play(Hands, config, GangUser)


@pytest_asyncio.fixture
async def gang_cluster() -> Cluster:
    return Cluster(features=GATES)


@pytest.fixture
def gangster(gang_cluster: Cluster) -> GangUser:
    return GangUser(gang_cluster)


class Lost(Faulty):
    """Carries out the first creation of a resource, and loses the answer."""

    plural = ""
    lost = False

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        is_creation = request.method == "POST" and request.path.endswith(self.plural)
        if is_creation and not self.lost:
            self.lost = True
            msg = "connection reset"
            raise TransportError(msg)
        return answer


@pytest.mark.looptime
@pytest.mark.parametrize("plural", ["workloads", "podgroups"])
@pytest.mark.parametrize("hidden", [False, True])
async def test_a_creation_without_an_answer_is_found_again(
    gang_cluster: Cluster, gangster: GangUser, plural: str, *, hidden: bool
) -> None:
    """Also if no cache shows it; no pod is created before its group is known."""
    lost = Lost(gang_cluster)
    lost.plural = plural
    watches = SilentWatches(lost)
    async with gang_cluster.manager(CONFIG, transport=watches):
        if hidden:
            watches.silence(plural)
        await gangster.run(**GANG)
        await settle(0.5)
        assert (lost.lost, await gangster.pods()) == (True, [])
        await settle(10)
        assert len(await gangster.pods()) == 3
        first, *_ = await gangster.pods()
        await gangster.end(first, code=1)
        await settle(60)
        watches.speak(plural)
        await settle(60)
    await gangster.are_a_gang(4)
    assert len(await gangster.workloads()) == 1


@pytest.mark.looptime
async def test_a_new_job_is_a_gang(gang_cluster: Cluster, gangster: GangUser) -> None:
    """Though the workload of the deleted job of its name is still there."""
    async with gang_cluster.manager(CONFIG):
        await gangster.run(**GANG)
        await settle(5)
        await gangster.delete(JOBS, "j", "Background")
        old = [each.metadata.name for each in await gangster.pods()]
        await gangster.run(**GANG)
        await settle(30)
    new = [each for each in await gangster.pods() if each.metadata.name not in old]
    named = {_group_of(each) for each in new}
    (job, (first, second)) = await gangster.job(), await gangster.groups()
    (group,) = (
        each.metadata.name
        for each in (first, second)
        if (each.metadata.owner_references or ())[0].uid == job.metadata.uid
    )
    assert (len(new), named) == (3, {group})


OWNER = msgspec.to_builtins(controller_reference(job(), JOBS))
API = "scheduling.k8s.io/v1alpha2"
POLICY = {"gang": {"minCount": 3}}
NAMED = {"metadata": {}, "spec": {"schedulingGroup": {"podGroupName": "g"}}}


def encoded(body: JSON) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"indexes": 2, "parallelism": 2}, True),
        ({"indexes": 1, "parallelism": 1}, False),
        ({"indexes": 0, "parallelism": 0}, False),
        ({"indexes": 4, "parallelism": 2}, False),
        ({"indexes": 2, "parallelism": 4}, False),
        ({"indexes": 2, "parallelism": None}, False),
        ({"completions": 2, "parallelism": 2}, False),
        ({"completions": None, "parallelism": 2}, False),
        ({"indexes": 2, "parallelism": 2, "template": NAMED}, False),
    ],
)
def test_a_gang_is_indexed_and_runs_at_a_time(spec: JSON, *, expected: bool) -> None:
    """It has more than one pod, and names no group in its template."""
    assert is_gang(job(**spec)) == expected


@pytest.mark.parametrize(
    "status",
    [
        {"startTime": text(0)},
        {"startTime": None, "succeeded": 1},
        {"startTime": None, "failed": 1},
        {"startTime": None, **standing("Suspended")},
        {"startTime": None, "conditions": [{"type": "Suspended", "status": "False"}]},
    ],
)
def test_a_job_that_may_have_had_pods_is_not_new(status: JSON) -> None:
    """Each sign alone is enough: the other signs may be gone."""
    assert is_new(job({"startTime": None}), ())
    assert not is_new(job({"startTime": None}), (pod("p"),))
    assert not is_new(job(status), ())


def test_a_workload_has_one_template_for_all_pods() -> None:
    body = workload_body(job(indexes=3, parallelism=3))
    assert encoded(body) == {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {
            "name": workload_name("j", "uid-j"),
            "namespace": "default",
            "ownerReferences": [OWNER],
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
            "podGroupTemplates": [{"name": "j-pgt-0", "schedulingPolicy": POLICY}],
        },
    }


@pytest.mark.parametrize("policy", [POLICY, {"basic": {}}])
def test_a_group_has_the_policy_of_the_template(policy: JSON) -> None:
    metadata = {"name": "w", "namespace": "default", "uid": "uid-w"}
    spec = {"podGroupTemplates": [{"name": "t", "schedulingPolicy": policy}]}
    workload = msgspec.convert({"metadata": metadata, "spec": spec}, Workload)
    body = pod_group_body(job(indexes=3, parallelism=3), workload)
    owner = {"apiVersion": API, "kind": "Workload", "name": "w", "uid": "uid-w"}
    origin = {"workloadName": "w", "podGroupTemplateName": "t"}
    assert encoded(body) == {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {
            "name": pod_group_name("w", "t"),
            "namespace": "default",
            "ownerReferences": [OWNER, owner],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": origin},
            "schedulingPolicy": policy,
        },
    }


def test_names_follow_from_the_uid_of_the_job() -> None:
    """A second manager computes the same names, and two jobs never have the same."""
    assert workload_name("j", "1") == "j-84696766"
    assert workload_name("j", "2") != workload_name("j", "1")
    assert pod_group_name("w", "t") == "w-t-56b6fd67c8"


@pytest.mark.parametrize(
    ("workload", "template", "kept"),
    [
        (1, 252, (1, None)),
        (252, 1, (None, 1)),
        (253, 253, (None, None)),
        (60, 60, (60, 60)),
    ],
)
def test_a_long_name_is_cut_and_keeps_its_hash(
    workload: int, template: int, kept: tuple[int | None, int | None]
) -> None:
    """A name has at most 253 characters; a short part is not cut."""
    name = pod_group_name("w" * workload, "t" * template)
    first, second, digest = name.split("-")
    assert len(name) == min(253, workload + template + len(digest) + 2)
    for part, expected in zip((first, second), kept, strict=True):
        assert len(part) == expected or (expected is None and len(part) > 100)
    assert len(workload_name("j" * 253, "1")) == 253
