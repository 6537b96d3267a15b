"""Follows jobs and their pods from write to write, and reports impossible states.

It knows nothing of the controller: it compares the stored objects with those before
the write. A pod of a job is counted once, before it loses its finalizer; a counted pod
stays counted; an ended job does not change.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.batch.job.stored import (
    ENDS,
    has,
    has_ended,
    index_of,
    indexes_in,
    is_deleting,
    is_indexed,
    is_ours,
    is_tracked,
    matches,
    phase_of,
)
from tests.simulation.objects import controller_of, lives

_RESULTS: Final = ("succeeded", "failed")


@dataclass
class _Page:
    """The last state of one job."""

    job: JSON
    pods: Mapping[str, JSON] = field(default_factory=dict)
    """The pods that it controlled at the last look, by uid."""

    listed: dict[str, set[str]] = field(
        default_factory=lambda: {each: set() for each in _RESULTS}
    )
    """The uids that uncountedTerminatedPods has ever had."""

    succeeded: frozenset[str] = frozenset()
    """The indexes of which a pod succeeded and was the job's, at any look so far.

    The garbage collector may orphan such a pod before the status with its index is
    stored.
    """

    @property
    def status(self) -> JSON:
        status: JSON = self.job.get("status", {})
        return status

    def uncounted(self, result: str) -> set[str]:
        return set((self.status.get("uncountedTerminatedPods") or {}).get(result) or ())


class Ledger:
    """Follows all jobs of a cluster."""

    def __init__(self) -> None:
        self._pages: dict[str, _Page] = {}
        self._known: set[str] = set()
        """The uids of all pods that were there at the last look."""
        self.extended: set[str] = set()
        """The uids of the jobs that got new pods, made by controllers, between the last
        two looks."""

    def look(self, jobs: Iterable[JSON], pods: Iterable[JSON]) -> Iterator[str]:
        """Compare with the last look; yield the faults."""
        owned: dict[str, dict[str, JSON]] = {}
        everywhere: dict[str, JSON] = {}
        for pod in pods:
            everywhere[pod["metadata"]["uid"]] = pod
            owned.setdefault(controller_of(pod), {})[pod["metadata"]["uid"]] = pod
        pages: dict[str, _Page] = {}
        self.extended = {
            uid
            for uid, mine in owned.items()
            if any(_is_made(pod) for key, pod in mine.items() if key not in self._known)
        }
        for job in jobs:
            uid = job["metadata"]["uid"]
            before = self._pages.get(uid, _Page({"metadata": job["metadata"]}))
            mine = owned.get(uid, {})
            succeeded = before.succeeded.union(_succeeded_indexes(mine.values()))
            page = _Page(job, mine, before.listed, succeeded)
            pages[uid] = page
            if not is_ours(job):
                problems = _touched(page, self._known)
                yield from (f"{job['metadata']['name']}: {each}" for each in problems)
                continue
            for problem in (
                *_miscounted(before, page),
                *_uncounted(before, page, everywhere),
                *_changed_after_the_end(before, page),
                *_surplus(before, page, self._known),
            ):
                yield f"{job['metadata']['name']}: {problem}"
        self._pages, self._known = pages, set(everywhere)


def _miscounted(before: _Page, page: _Page) -> Iterator[str]:
    """Yield pods that are counted twice, or too early, and counts that are wrong."""
    if page.status == before.status:
        return
    for result in _RESULTS:
        now = page.uncounted(result)
        new = now - before.uncounted(result)
        again = new & (page.listed["succeeded"] | page.listed["failed"])
        for uid in sorted(again):
            yield f"pod {uid} is listed again, as {result}"
        page.listed[result] |= new
        for uid in sorted(new):
            yield from _wrong_result(page, uid, result)
        for uid in sorted(before.uncounted(result) - now):
            if is_tracked(page.pods.get(uid)):
                yield f"pod {uid} is counted while it has its finalizer"
        total, listed = page.status.get(result, 0) + len(now), len(page.listed[result])
        by_index = result == "succeeded" and is_indexed(page.job)
        # A user may write the status of a job that never had pods.
        is_users = not page.pods and not any(page.listed.values())
        if total != listed and not (again or by_index or is_users):
            yield f"{total} pods are counted as {result}, {listed} were listed"
    if is_indexed(page.job):
        yield from _miscounted_indexes(before, page)


def _wrong_result(page: _Page, uid: str, result: str) -> Iterator[str]:
    pod = page.pods.get(uid)
    if pod is None:
        return  # it was released meanwhile
    phase = phase_of(pod)
    if result == "succeeded" and phase != "Succeeded":
        yield f"pod {uid} is listed as succeeded, it is {phase}"
    goes = is_deleting(pod) or has(page.job, "FailureTarget", "Failed")
    if result == "failed" and phase != "Failed" and not goes:
        yield f"pod {uid} is listed as failed, it is {phase}"


def _miscounted_indexes(before: _Page, page: _Page) -> Iterator[str]:
    completed = indexes_in(page.status.get("completedIndexes"))
    earlier = indexes_in(before.status.get("completedIndexes"))
    if page.status.get("succeeded", 0) != len(completed):
        yield f"{page.status.get('succeeded', 0)} succeeded, of indexes {completed}"
    for index in sorted(completed - earlier - page.succeeded):
        yield f"index {index} is completed, and none of its pods succeeded"
    kept = {each for each in earlier if int(each) < page.job["spec"]["completions"]}
    if lost := kept - completed:
        yield f"indexes {sorted(lost)} are no longer completed"
    failed = indexes_in(page.status.get("failedIndexes"))
    if lost := indexes_in(before.status.get("failedIndexes")) - failed:
        yield f"indexes {sorted(lost)} have no longer failed"
    if both := failed & completed:
        yield f"indexes {sorted(both)} are completed and have failed"


def _succeeded_indexes(pods: Iterable[JSON]) -> Iterator[str]:
    return (index_of(pod) for pod in pods if phase_of(pod) == "Succeeded")


def _uncounted(
    before: _Page, page: _Page, everywhere: Mapping[str, JSON]
) -> Iterator[str]:
    """Yield pods that ended, or were deleted, and lost the finalizer uncounted."""
    if has(page.job, *ENDS, "SuccessCriteriaMet") or is_deleting(page.job):
        return
    for uid, pod in before.pods.items():
        now = everywhere.get(uid)
        if not is_tracked(pod) or is_tracked(now):
            continue
        last = now if now is not None else pod
        if controller_of(last) != page.job["metadata"]["uid"] or not matches(
            page.job, last
        ):
            continue  # released
        # A surplus pod loses its finalizer before it is deleted, so `pod`.
        if (has_ended(last) or is_deleting(pod)) and not _is_counted(page, uid, last):
            yield f"pod {uid}, {phase_of(last)}, lost its finalizer and is not counted"


def _is_counted(page: _Page, uid: str, pod: JSON) -> bool:
    if uid in page.listed["succeeded"] | page.listed["failed"]:
        return True
    if is_indexed(page.job):
        index = index_of(pod)
        if not index or int(index) >= page.job["spec"]["completions"]:
            return True  # it never counts
        if phase_of(pod) == "Succeeded":
            # A success does not count if another pod of its index failed for good.
            ends = (
                page.status.get(f"{each}Indexes") for each in ("completed", "failed")
            )
            return any(index in indexes_in(each) for each in ends)
    return _is_ignored(page.job, pod)


def _is_ignored(job: JSON, pod: JSON) -> bool:
    """Tell whether a rule of the failure policy ignores a condition of the pod."""
    rules = job["spec"].get("podFailurePolicy", {}).get("rules", [])
    ignored = {
        pattern["type"]
        for rule in rules
        if rule["action"] == "Ignore"
        for pattern in rule.get("onPodConditions", [])
    }
    conditions = pod.get("status", {}).get("conditions", [])
    return any(
        each["type"] in ignored and each["status"] == "True" for each in conditions
    )


def _changed_after_the_end(before: _Page, page: _Page) -> Iterator[str]:
    """Yield changes of an ended job, and work that is left when a job ends."""
    if has(before.job, *ENDS):
        if page.status != before.status:
            yield f"its status changed after its end, from {before.status}"
        return
    if not has(page.job, *ENDS):
        return
    if all(has(page.job, each) for each in ENDS):
        yield "it is complete and has failed"
    for uid, pod in page.pods.items():
        # A job that is being deleted does not release the pods that do not match it.
        is_kept = is_deleting(page.job) and not matches(page.job, pod)
        if is_tracked(pod) and not is_kept:
            yield f"it ended while pod {uid} has its finalizer"
    if page.uncounted("succeeded") or page.uncounted("failed"):
        yield "it ended with uncounted pods"
    for count in ("active", "ready", "terminating"):
        if left := page.status.get(count, 0):
            yield f"it ended with {left} {count} pods"


def _touched(page: _Page, known: set[str]) -> Iterator[str]:
    """Yield new pods of a job that another controller manages."""
    for uid, pod in page.pods.items():
        if uid not in known and _is_made(pod):
            yield f"pod {uid} was made for a job that another controller manages"


def _is_made(pod: JSON) -> bool:
    """Tell whether a controller made the pod; users give names to their pods."""
    return "generateName" in pod["metadata"]


def _surplus(before: _Page, page: _Page, known: set[str]) -> Iterator[str]:
    """Yield new pods that a controller made and that the job did not need."""
    for uid, pod in page.pods.items():
        if uid in known or not _is_made(pod):
            continue
        if has(before.job, *ENDS, "FailureTarget", "SuccessCriteriaMet"):
            yield f"pod {uid} was made although the job ends"
        others = [each for key, each in page.pods.items() if key != uid]
        if is_indexed(page.job):
            yield from _surplus_of_index(page, pod, others)


def _surplus_of_index(page: _Page, pod: JSON, others: list[JSON]) -> Iterator[str]:
    index, owner = index_of(pod), page.job["metadata"]["uid"]
    done = indexes_in(page.status.get("completedIndexes"))
    done |= indexes_in(page.status.get("failedIndexes"))
    if index in done:
        yield f"another pod of index {index}, which is done"
    for other in others:
        if index_of(other) != index or not matches(page.job, other):
            continue
        if lives(other, owner):
            yield f"a second pod of index {index}"
        elif phase_of(other) == "Succeeded" and is_tracked(other):
            yield f"another pod of index {index}, which has succeeded"
