"""Gangs of pods on a cluster in memory, on virtual time."""

from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
import pytest_asyncio

from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import (
    POD_GROUPS,
    WORKLOADS,
    PodGroup,
    Workload,
)
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.client.rest.errors import Forbidden, TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.batch.job.gang_scheduling import workload_name
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.controllers.batch.job.user import JobUser, job_config
from tests.controllers.user import settle
from tests.informers.test_informer import Faulty
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime


GATES: Final = FeatureGates({"GenericWorkload": True, "WorkloadWithJob": True})
CONFIG: Final = replace(job_config(), features=GATES)
GANG: Final[JSON] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


class GangUser(JobUser):
    """Sees workloads, groups, and the groups that pods name."""

    async def workloads(self) -> list[Workload]:
        return (await self.client.list_page(WORKLOADS)).items

    async def groups(self) -> list[PodGroup]:
        return (await self.client.list_page(POD_GROUPS)).items

    async def named(self) -> list[str | None]:
        """Return the group that each pod names."""
        return [_group_of(each) for each in await self.pods()]

    async def add_workload(self, name: str, **metadata: Any) -> None:
        """Create a workload for the job j."""
        template = {"name": "t", "schedulingPolicy": {"basic": {}}}
        reference = {"apiGroup": "batch", "kind": "Job", "name": "j"}
        spec = {"controllerRef": reference, "podGroupTemplates": [template]}
        await self.create(
            WORKLOADS, {"metadata": {"name": name, **metadata}, "spec": spec}
        )


def _group_of(pod: Pod) -> str | None:
    group = pod.spec.scheduling_group
    return None if group is None else group.pod_group_name


@pytest_asyncio.fixture
async def gang_cluster() -> Cluster:
    return Cluster(features=GATES)


@pytest.fixture
def gangster(gang_cluster: Cluster) -> GangUser:
    return GangUser(gang_cluster)


async def test_a_pod_that_is_made_later_names_the_same_group(
    gang_cluster: Cluster, gangster: GangUser
) -> None:
    """Also by another process; there is one workload and one group."""
    async with gang_cluster.manager(CONFIG):
        await gangster.run(**GANG)
        await settle(5)
    first, *_ = await gangster.pods()
    await gangster.end(first, code=1)
    async with gang_cluster.manager(CONFIG):
        await settle(60)
    (group,) = await gangster.groups()
    assert len(await gangster.workloads()) == 1
    assert await gangster.named() == [group.metadata.name] * 4
    assert len(await gangster.events("WorkloadCreated")) == 1


async def test_a_job_that_is_older_than_the_gate_does_not_become_a_gang(
    gang_cluster: Cluster, gangster: GangUser
) -> None:
    """Half of its pods would wait for others that run already."""
    async with gang_cluster.manager(job_config()):
        await gangster.run(**GANG)
        await settle(5)
    first, *_ = await gangster.pods()
    async with gang_cluster.manager(CONFIG):
        await gangster.end(first, code=1)
        await settle(60)
    assert (await gangster.workloads(), await gangster.groups()) == ([], [])
    assert await gangster.named() == [None] * 4


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
    (group,) = await gangster.groups()
    assert await gangster.named() == [group.metadata.name] * 4
    assert len(await gangster.workloads()) == 1


async def test_no_pod_is_created_while_its_group_cannot_be(
    gang_cluster: Cluster, gangster: GangUser
) -> None:
    """Its pods could not name the group later."""
    faulty = Faulty(gang_cluster)

    def refuse(request: Request) -> Response | None:
        if request.method == "POST" and request.path.endswith("/podgroups"):
            return Response(503, {}, b"{}")
        return None

    faulty.refuse = refuse
    async with gang_cluster.manager(CONFIG, transport=faulty):
        await gangster.run(**GANG)
        await settle(60)
        assert await gangster.pods() == []
        faulty.refuse = lambda _: None
        await settle(120)
    (group,) = await gangster.groups()
    assert await gangster.named() == [group.metadata.name] * 3


async def test_a_foreign_object_with_the_name_of_the_workload_stops_the_job(
    gang_cluster: Cluster, gangster: GangUser
) -> None:
    """The job waits until it is gone; it is not used as the workload of the job."""
    job = await gangster.run(**GANG, suspend=True)
    name = workload_name("j", job.metadata.uid)
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    spec = {"podGroupTemplates": [template]}
    await gangster.create(WORKLOADS, {"metadata": {"name": name}, "spec": spec})
    async with gang_cluster.manager(CONFIG):
        await gangster.change(suspend=False)
        await settle(60)
        assert (await gangster.groups(), await gangster.pods()) == ([], [])
        await gangster.client.delete(WORKLOADS, "default", name)
        await settle(120)
    (group,) = await gangster.groups()
    assert await gangster.named() == [group.metadata.name] * 3


@pytest.mark.parametrize("names", [["mine"], ["mine", "yours"]])
async def test_a_foreign_workload_means_no_gang(
    gang_cluster: Cluster, gangster: GangUser, names: list[str]
) -> None:
    """There may be one or several; the pods are scheduled one by one."""
    for name in names:
        await gangster.add_workload(name)
    async with gang_cluster.manager(CONFIG):
        await gangster.run(**GANG)
        await settle(5)
    assert [each.metadata.name for each in await gangster.workloads()] == names
    assert await gangster.groups() == []
    assert await gangster.named() == [None] * 3


async def test_a_job_that_is_created_again_is_a_gang_again(
    gang_cluster: Cluster, gangster: GangUser
) -> None:
    """Though the workload of the deleted job of its name is still there."""
    async with gang_cluster.manager(CONFIG):
        await gangster.run(**GANG)
        await settle(5)
        options = DeleteOptions(propagation_policy=PropagationPolicy.BACKGROUND)
        await gangster.client.delete(JOBS, "default", "j", options)
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


async def test_a_gang_keeps_its_size(gang_cluster: Cluster, gangster: GangUser) -> None:
    """The API server refuses another parallelism; other jobs may change theirs."""
    async with gang_cluster.manager(CONFIG):
        await gangster.run(**GANG)
        await gangster.run("other", completions=3, parallelism=3)
        await settle(5)
        await gangster.change("other", parallelism=2)
        (group,) = await gangster.groups()
        with pytest.raises(Forbidden) as refusal:
            await gangster.change(parallelism=2)
    assert str(refusal.value) == (
        'jobs.batch "j" is forbidden: cannot change parallelism for a Job referencing '
        f'gang-scheduled PodGroup "{group.metadata.name}"'
    )


async def test_without_the_gate_no_workload_or_group_is_read(
    cluster: Cluster, user: JobUser
) -> None:
    """Most API servers have neither workloads nor groups."""
    faulty = Faulty(cluster)
    async with cluster.manager(job_config(), transport=faulty):
        await user.run(**GANG)
        await settle(5)
    assert [each for each in faulty.requests if "scheduling" in each.path] == []
    assert len(await user.pods()) == 3


async def test_a_server_without_the_gate_drops_the_group_of_pods(
    cluster: Cluster, gang_cluster: Cluster
) -> None:
    """In new pods and in the templates of jobs; an update keeps a stored group."""
    pod_spec = {
        "containers": [{"name": "c", "image": "i"}],
        "restartPolicy": "Never",
        "schedulingGroup": {"podGroupName": "g"},
    }
    for each, kept in ((cluster, False), (gang_cluster, True)):
        user = JobUser(each)
        await user.create(PODS, {"metadata": {"name": "p"}, "spec": pod_spec})
        await user.run(template={"spec": pod_spec})
        (pod,), job = await user.pods(), await user.job()
        template = msgspec.json.decode(job.spec.template.spec)
        assert (pod.spec.scheduling_group is not None) == kept
        assert ("schedulingGroup" in template) == kept
