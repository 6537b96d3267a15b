"""The properties of the job controller."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from controller_manager.api.json_objects import JSON
from tests.controllers.apps.replicaset.properties import Wanted
from tests.controllers.batch.job.ledger import Ledger
from tests.controllers.batch.job.stored import (
    ENDS,
    asked_for,
    has,
    is_ours,
    is_tracked,
)
from tests.controllers.batch.job.workload import JobUsers
from tests.simulation.changes import only
from tests.simulation.managers import Manager
from tests.simulation.objects import controller_of, lives, path_of
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State


@dataclass
class _Bounds:
    """The wanted numbers of pods at a time, and of successes in all."""

    at_once: Wanted = field(default_factory=Wanted)
    in_all: Wanted = field(default_factory=Wanted)


class JobProperties(Properties):
    """Each pod is counted once; no job creates more pods than it wanted recently.

    All pods of a job are in one group, or none is in any.
    """

    controller = "job-controller"
    may_write = (
        AllowedWrite(("create", "delete"), "pods"),
        AllowedWrite(
            ("patch",),
            "pods",
            only(("metadata", "ownerReferences"), ("metadata", "finalizers")),
        ),
        AllowedWrite(("update",), "jobs/status", only(("status",))),
        AllowedWrite(("create",), "workloads"),
        AllowedWrite(("create",), "podgroups"),
    )
    workload = JobUsers

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._ledger = Ledger()
        self._bounds: dict[str, _Bounds] = {}
        self._found: list[str] = []

    def before_write(self) -> None:
        """Look at what users, nodes and faults have done since the last write."""
        now = asyncio.get_running_loop().time()
        for job in self.state.stored("jobs"):
            bounds = self._bounds.setdefault(job["metadata"]["uid"], _Bounds())
            bounds.at_once.note(now, _parallelism(job))
            bounds.in_all.note(now, job["spec"].get("completions", 10**6))
        self._look()

    def _look(self) -> None:
        jobs, pods = self.state.stored("jobs"), self.state.stored("pods")
        self._found += self._ledger.look(jobs, pods)

    def after_write(self, write: Write) -> Iterator[str]:
        self._look()
        found, self._found = self._found, []
        yield from self._writes_for_others(write)
        # A stopped process cannot cancel a write that a slow webhook delays.
        if write.verb == "create" and write.target.plural == "pods":
            if write.is_late:
                return
            yield from self._surplus(write)
            yield from self._torn_gang(write)
        yield from found

    def _torn_gang(self, write: Write) -> Iterator[str]:
        """Yield a new pod that is not in the group of the other pods of its job."""
        owner = controller_of(write.answered)
        groups = {
            (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
            for pod in self.state.stored("pods")
            if owner is not None and controller_of(pod) == owner
        }
        if len(groups) > 1:
            yield f"{write}: the pods of the job are in the groups {groups}"

    def _writes_for_others(self, write: Write) -> Iterator[str]:
        mine = write.controller == self.controller and write.target.plural == "jobs"
        if mine and write.before is not None and not is_ours(write.before):
            yield f"{write}: another controller manages this job"

    def _surplus(self, write: Write) -> Iterator[str]:
        owner = controller_of(write.answered)
        now = asyncio.get_running_loop().time()
        for job in self.state.stored("jobs"):
            uid = job["metadata"]["uid"]
            if uid == owner:
                bounds = self._bounds[uid]
                yield from self._beyond(
                    job, bounds.at_once.most(now), bounds.in_all.most(now)
                )

    def _beyond(self, job: JSON, at_once: int, in_all: int) -> Iterator[str]:
        live, asked = asked_for(job, self.state.stored("pods"))
        name = job["metadata"]["name"]
        if live > at_once:
            yield f"{name} has {live} live pods and wanted {at_once} at a time"
        if asked > in_all:
            yield f"{name} asked for {asked} successes and wanted {in_all}"

    def broken_invariants(self) -> Iterator[str]:
        """Yield the faults that the ledger finds, and new pods that no job wanted."""
        self.before_write()
        found, self._found = self._found, []
        yield from found
        for job in self.state.stored("jobs"):
            uid = job["metadata"]["uid"]
            if uid in self._ledger.extended:
                bounds = self._bounds[uid]
                yield from self._beyond(job, bounds.at_once.ever, bounds.in_all.ever)

    def wrong_at_the_end(self, managers: Sequence[Manager]) -> Iterator[str]:
        """Yield pods that no job will count, and jobs that have not ended."""
        del managers
        running = {
            job["metadata"]["uid"]
            for job in self.state.stored("jobs")
            if not has(job, *ENDS)
        }
        for pod in self.state.stored("pods"):
            if is_tracked(pod) and not (
                controller_of(pod) in running and lives(pod, controller_of(pod))
            ):
                yield f"pod {path_of(pod)} keeps its finalizer"

    def end_state(self) -> JSON:
        """Return the state of every job as far as faults of pods do not change it."""
        return {
            path_of(job): _seen_of(job)
            for job in self.state.stored("jobs")
            if is_ours(job)
        }


def _parallelism(job: JSON) -> int:
    parallelism: int = job["spec"].get("parallelism", 1)
    return parallelism


def _seen_of(job: JSON) -> JSON:
    """Leave out the counts of work queues, and those of jobs that end early."""
    status = job.get("status", {})
    all_needed = has(job, "Complete") and "completions" in job["spec"]
    return {
        "conditions": sorted(
            (each["type"], each["status"], each.get("reason", ""))
            for each in status.get("conditions", [])
            if each["type"] != "Suspended"
        ),
        "succeeded": status.get("succeeded", 0) if all_needed else None,
        "failedIndexes": status.get("failedIndexes"),
        "active": status.get("active", 0),
        "ready": status.get("ready", 0),
        "terminating": status.get("terminating", 0),
    }


PROPERTIES = JobProperties
