"""Counts the stuck rollouts by the root cause that ``explain`` finds."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.apps import v1
from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.informers.informer import SharedInformer
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger
from controller_manager.runtime.registry import FindRootCause, RootCause
from controller_manager.runtime.worker import until_done

from .runnable import Lifetime, Runnable

_SLICE: Final = 500
"""The objects that are looked at in one turn of the event loop."""

_STUCK: Final = frozenset(
    (
        ("Progressing", "False", "ProgressDeadlineExceeded"),
        ("Progressing", "False", "ReplicaSetCreateError"),
    )
)


class Stalled(Struct, frozen=True):
    """A rollout that does not get on.

    With `is_certain` its status says that it is stuck; only a deployment's does.
    """

    resource: AnyResource
    namespace: str
    name: str
    uid: str
    is_certain: bool


async def stalled(informers: Iterable[SharedInformer[Any]]) -> AsyncIterator[Stalled]:
    """Yield the rollouts in the caches that do not get on; other caches are skipped."""
    for informer in informers:
        judge = _JUDGES.get(informer.resource.group_resource)
        if judge is None or not informer.is_synced or informer.resource.metadata_only:
            continue
        for number, key in enumerate(informer.store.keys()):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            obj = informer.store.get(key)
            if obj is None or obj.metadata.deletion_timestamp:
                continue
            if (is_certain := judge(obj)) is not None:
                yield Stalled(
                    informer.resource,
                    obj.metadata.namespace,
                    obj.metadata.name,
                    obj.metadata.uid,
                    is_certain,
                )


def _deployment(deployment: v1.Deployment) -> bool | None:
    """Tell that a deployment is stuck; `None` if it is not."""
    for each in deployment.status.conditions or ():
        if (each.type, each.status, each.reason) in _STUCK:
            return True
        if (each.type, each.status) == ("ReplicaFailure", "True"):
            return True
    return None


def _stateful_set(stateful_set: v1.StatefulSet) -> bool | None:
    """Tell that a stateful set may be stuck; `None` if its rollout is complete."""
    wanted, status = v1.desired_replicas(stateful_set), stateful_set.status
    is_available = status.available_replicas >= wanted
    is_updated = status.current_revision == status.update_revision
    return None if is_available and is_updated else False


def _daemon_set(daemon_set: v1.DaemonSet) -> bool | None:
    """Tell that a daemon set may be stuck; `None` if its rollout is complete."""
    status = daemon_set.status
    wanted = status.desired_number_scheduled
    is_available = status.number_available >= wanted
    is_updated = status.updated_number_scheduled >= wanted
    return None if is_available and is_updated else False


_JUDGES: Final[dict[str, Callable[[Any], bool | None]]] = {
    v1.DAEMON_SETS.group_resource: _daemon_set,
    v1.DEPLOYMENTS.group_resource: _deployment,
    v1.STATEFUL_SETS.group_resource: _stateful_set,
}


PERIOD: Final = 60.0
"""Seconds from one turn to the next."""

_NEW: Final = 15
_LOOKS: Final = 20
"""The most explanations in a turn, and the most of them for rollouts that are new."""

_TURN_SECONDS: Final = 30.0
"""The time after which a turn begins no more explanations."""

_LOOK_SECONDS: Final = 20.0
_KEPT: Final = 1_000
"""The most rollouts whose cause is remembered."""

UNKNOWN: Final = "Unknown"
"""The cause of a rollout that is not explained yet, or cannot be."""

Informers = Callable[[], Iterable[SharedInformer[Any]]]
Show = Callable[[Mapping[tuple[str, str], int]], None]


class _Seen(Struct, frozen=True):
    """A rollout that was explained; `cause` is empty if it is not stuck."""

    kind: str
    cause: str
    is_certain: bool


@dataclass(eq=False)
class StuckRollouts(Runnable):
    """Explains, once a minute, some of the rollouts that the caches show as stuck.

    New ones come first, then those whose explanation is the oldest. A deployment
    whose status says that it is stuck counts at once, with an unknown cause until it
    is explained. Others count once an explanation says that they are stuck.

    Nothing is watched for it: only the caches of enabled controllers are looked at.
    `find` finds a root cause; without it nothing is counted. `client` only reads.
    `show` takes the numbers by cause and kind.
    """

    informers: Informers
    find: FindRootCause | None
    client: Client
    clock: ServerClock
    _: KW_ONLY
    show: Show
    count_defect: Callable[[str], None]
    logger: Logger
    _seen: dict[str, _Seen] = field(init=False, default_factory=dict)
    _has_complained: bool = field(init=False, default=False)
    _task: asyncio.Task[None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Count what is unexpected."""
        self._defects = Defects(self.logger, self.count_defect)

    async def run(self, life: Lifetime) -> None:
        """Start to count."""
        if self.find is None:
            return
        failed = partial(self._defects.report, "stuck-rollouts")
        running = until_done(self._count, failed, life.stop)
        self._task = life.tasks.create_task(running, name="stuck-rollouts")

    async def stop(self) -> None:
        """Count no more."""
        if self._task is not None:
            self._task.cancel()

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            await self.turn()

    async def turn(self) -> None:
        """Explain some rollouts, and show the numbers of all."""
        certain: Counter[str] = Counter()
        old: dict[str, Stalled] = {}
        new: list[Stalled] = []
        async for each in stalled(self.informers()):
            certain[each.resource.kind] += each.is_certain
            if each.uid in self._seen:
                old[each.uid] = each
            elif len(new) < _LOOKS:
                new.append(each)
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in old}
        oldest = [old[uid] for uid in self._seen]
        first = new[: max(_NEW, _LOOKS - len(oldest))]
        await self._explain([*first, *oldest[: _LOOKS - len(first)]])
        self.show(self._numbers(certain))

    def _numbers(self, certain: Counter[str]) -> Mapping[tuple[str, str], int]:
        """Return the numbers of stuck rollouts by cause and kind."""
        unseen = certain - Counter(
            each.kind for each in self._seen.values() if each.is_certain
        )
        known = Counter(
            (each.cause, each.kind) for each in self._seen.values() if each.cause
        )
        return known + Counter({(UNKNOWN, kind): unseen[kind] for kind in unseen})

    async def _explain(self, chosen: Iterable[Stalled]) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _TURN_SECONDS
        unread = ""
        for each in chosen:
            if loop.time() > end:
                break
            root = await self._root_cause(each)
            self._seen.pop(each.uid, None)
            unread = unread or root.unread
            self._remember(each, root)
        self._complain(unread)

    def _remember(self, each: Stalled, root: RootCause) -> None:
        counts = root.is_stuck or (each.is_certain and not root.is_healthy)
        cause = (root.code or UNKNOWN) if counts else ""
        self._seen[each.uid] = _Seen(each.resource.kind, cause, each.is_certain)
        if len(self._seen) > _KEPT:
            del self._seen[next(iter(self._seen))]

    async def _root_cause(self, each: Stalled) -> RootCause:
        """Return the root cause of a rollout."""
        namespace, name = each.namespace, each.name
        if self.find is None:
            return RootCause()
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self.find(
                    self.client, self.clock, each.resource, namespace, name
                )
        except TimeoutError:
            return RootCause(unread=f"{each.resource.group_resource}: no answer")
        except Exception as error:  # noqa: BLE001 - the defect concerns one rollout
            kind, key = each.resource.kind, f"{namespace}/{name}"
            self._defects.report("stuck-rollouts", error, kind=kind, key=key)
            return RootCause()

    def _complain(self, unread: str) -> None:
        """Log that something cannot be read, once until all can be read again."""
        if unread and not self._has_complained:
            self.logger.warning(
                "The cause of a stuck rollout may be unknown: an object around it "
                "cannot be read",
                err=unread,
            )
        self._has_complained = bool(unread)
