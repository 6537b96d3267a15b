"""A main loop that stands still: its lease, its probes, and its writes."""

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from tests.robustness.cluster import FaultyCluster, faulty_cluster, refusal
from tests.robustness.daemon import SHORT_LEASE, Daemon, run_daemon
from tests.robustness.objects import deployments, workload
from tests.robustness.situation import now, on_uvloop, seconds_until, until, until_time

pytestmark = pytest.mark.slow

STALLING = "tests.robustness.stalling"

RENEW_DEADLINE = 3.0


def writes_after(cluster: FaultyCluster, when: float) -> list[str]:
    """Return the writes that came after a time, except about the election."""
    return [
        f"{each.method} {each.path} {each.at - when:.3f} s later"
        for each in cluster.requests
        if each.at > when
        and each.method not in ("GET", "HEAD")
        and "/leases" not in each.path
        and not each.path.endswith("/namespaces/kube-system/events")
    ]


async def probe_until(
    manager: Daemon, when: float, path: str = "/livez"
) -> list[tuple[float, float, int]]:
    """Probe five times a second; return when, for how long, and the status."""
    answers = []
    while (began := now()) < when:
        status, _ = await manager.get(path, limit=5)
        answers.append((began, now() - began, status))
        await until_time(began + 0.2)
    return answers


def quantile(seconds: Sequence[float], share: float) -> float:
    return sorted(seconds)[int(len(seconds) * share)]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2], ids=str)
@on_uvloop
async def test_a_main_loop_that_is_blocked_for_20_s_keeps_the_lease_and_answers_probes(
    number: signal.Signals, tmp_path: Path, figures: dict[str, object]
) -> None:
    """In Python code, which shares the interpreter, and in a system call.

    /livez says so after ten to fifteen seconds, and is well again afterwards.
    """
    async with (
        faulty_cluster() as cluster,
        run_daemon(cluster.kubeconfig, tmp_path, program=STALLING) as manager,
    ):
        await manager.until_it_leads()
        await manager.get("/livez")
        before = await probe_until(manager, now() + 2)
        began = now()
        manager.signal(number)
        during = await probe_until(manager, began + 19.5)
        renewed = [each for each in cluster.renewals() if began < each]
        await cluster.create(deployments("default"), workload("web", 3))
        rolled_out = await seconds_until(
            lambda: len(cluster.stored("pods", "default")) == 3, 20
        )
        after = await probe_until(manager, now() + 2)
        for name, answers in (("before", before), ("during", during)):
            took = [seconds for _, seconds, _ in answers]
            figures[f"probe {name}, median"] = round(quantile(took, 0.5), 4)
            figures[f"probe {name}, 90 %"] = round(quantile(took, 0.9), 4)
            figures[f"probe {name}, longest"] = round(max(took), 4)
        figures["longest without a renewal"] = cluster.longest_without_renewal()
        well = [status for at, _, status in during if at < began + 9]
        ill = [status for at, _, status in during if at > began + 17]
        assert set(well) == {200}
        assert set(ill) == {500}
        assert [status for *_, status in after][-1] == 200
        assert len(renewed) >= 7
        assert cluster.longest_without_renewal() < 10
        assert quantile([seconds for _, seconds, _ in during], 0.5) < 0.5
        assert rolled_out < 20
        assert "The main event loop has stalled" in manager.log()
        assert "in _spin" in manager.log() or "in _sleep" in manager.log()


@on_uvloop
async def test_a_main_loop_that_hangs_for_good_loses_the_lease_and_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: dict[str, object]
) -> None:
    """Although the main loop never answers: exit code 1, as upstream."""
    monkeypatch.setenv("STALL_SECONDS", "120")
    monkeypatch.setenv("HUNG_SECONDS", "4")

    async with (
        faulty_cluster() as cluster,
        run_daemon(
            cluster.kubeconfig, tmp_path, *SHORT_LEASE, program=STALLING
        ) as manager,
    ):
        await manager.until_it_leads()
        began = now()
        manager.signal(signal.SIGUSR1)
        code = await manager.ended(40)
        figures["ended after"] = now() - began
        last = cluster.renewals()[-1]
        figures["last renewal after"] = last - began
        assert code == 1
        assert 2 < last - began < 16
        assert "the controllers hang" in manager.log()
        assert "Exiting at once" in manager.log()
        assert "in _spin" in manager.log()


async def refuse_leases(request: web.BaseRequest) -> web.Response | None:
    if "/leases" in request.path and request.method == "PUT":
        return refusal(500, "InternalError", "no leases now")
    return None


@on_uvloop
async def test_no_write_leaves_after_the_lease_was_lost_while_the_main_loop_was_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when the loop goes on: it has work to do, and does none of it."""
    monkeypatch.setenv("STALL_SECONDS", "6")

    async with (
        faulty_cluster() as cluster,
        run_daemon(
            cluster.kubeconfig, tmp_path, *SHORT_LEASE, program=STALLING
        ) as manager,
    ):
        await manager.until_it_leads()
        manager.signal(signal.SIGUSR2)
        cluster.faults.append(refuse_leases)
        for number in range(20):
            name = f"web-{number}"
            await cluster.create(deployments("default"), workload(name, 5))
        assert await manager.ended(30) == 1
        ended = cluster.renewals()[-1] + RENEW_DEADLINE
        assert writes_after(cluster, ended) == []
        assert "leader election lost" in manager.log()


def has_pods(cluster: FaultyCluster) -> bool:
    return len(cluster.stored("pods", "default")) == 5


async def stopped_for_longer_than_its_lease(
    cluster: FaultyCluster, manager: Daemon
) -> list[str]:
    """Stop all threads of a manager while it has work; return the writes that it made.

    Only those count that came after its lease. The process ends with 1.
    """
    manager.signal(signal.SIGSTOP)
    ended = cluster.renewals()[-1] + RENEW_DEADLINE
    for number in range(5):
        await cluster.create(deployments("default"), workload(f"late-{number}", 5))
    await until_time(ended + 4)
    manager.signal(signal.SIGCONT)
    assert await manager.ended(30) == 1
    assert "leader election lost" in manager.log()
    return writes_after(cluster, ended)


@on_uvloop
async def test_no_write_leaves_after_a_process_was_stopped_for_longer_than_its_lease(
    tmp_path: Path,
) -> None:
    """It has nothing to do when it is stopped, and much when it goes on."""
    async with (
        faulty_cluster() as cluster,
        run_daemon(cluster.kubeconfig, tmp_path, *SHORT_LEASE) as manager,
    ):
        await manager.until_it_leads()
        await cluster.create(deployments("default"), workload("web", 5))
        await until(
            lambda: now() - cluster.requests[-1].at > 0.5 and has_pods(cluster),
            20,
            "all pods, and nothing more to do",
        )
        assert await stopped_for_longer_than_its_lease(cluster, manager) == []


@on_uvloop
async def test_of_a_burst_of_writes_at_most_the_one_leaves_that_had_passed_the_fence(
    tmp_path: Path,
) -> None:
    """A stop between the fence's answer and the system call that sends: decision 29."""
    async with (
        faulty_cluster() as cluster,
        run_daemon(cluster.kubeconfig, tmp_path, *SHORT_LEASE) as manager,
    ):
        await manager.until_it_leads()
        for number in range(20):
            name = f"web-{number}"
            await cluster.create(deployments("default"), workload(name, 5))
        await until(lambda: len(cluster.stored("pods", "default")) > 5, 20, "some pods")
        assert len(await stopped_for_longer_than_its_lease(cluster, manager)) <= 1
