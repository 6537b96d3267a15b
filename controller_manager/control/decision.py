"""Decide, then apply: the form of a reconcile that has something to choose.

::

    view ─decide→ Step ─apply→ view' ─decide→ Step ─apply→ view'' ─decide→ Decision

A view is an immutable value: the objects that matter, as the caches show them. A
function `decide` says what follows from a view at a time. It is pure: it does not
wait, it has no client, no cache, no logger and no clock of its own, and it never
changes its view. So it can be tested with tables, and a command can show what it
would do. An `Applier` carries out what was decided, and is the only part that waits
for the network.

Where the next choice depends on an answer of the API server, `decide` returns a
`Step`. Its actions are carried out, the applier returns the view with what it
learned, and `decide` is called again with that view. A `Decision` ends the sync.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import KubeObject
from controller_manager.api.resource import Resource
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.runtime.outcome import Done, Outcome, Requeue

MAX_STEPS: Final = 16
"""Steps of one sync at most. A `decide` that asks for more has a defect."""

ViewT = TypeVar("ViewT")
ActionT = TypeVar("ActionT", bound="Action")
ActionT_contra = TypeVar("ActionT_contra", bound="Action", contravariant=True)
StatusT = TypeVar("StatusT")
StatusT_contra = TypeVar("StatusT_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an object is not yet as its spec wants it: one fact.

    `waiting_for` is what is awaited, as words that continue "waiting for". `since`
    is when the wait began, `None` if nobody noted it. `object` is what must change.
    """

    waiting_for: str
    since: datetime | None
    object: ObjectReference


def reference_to(resource: Resource[Any], obj: KubeObject) -> ObjectReference:
    """Return a reference to an object; a cached one does not carry its kind."""
    metadata = obj.metadata
    return ObjectReference(
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=resource.api_version,
    )


class Action(Protocol):
    """One thing to do, as an immutable value; an `Applier` knows how to do it."""

    @property
    def awaits(self) -> Reason | None:
        """What is awaited until the action has taken effect, `None` for nothing."""


class Step(Struct, Generic[ActionT], frozen=True):
    """Carry out the actions, then decide again with what was learned."""

    actions: tuple[ActionT, ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What the actions await."""
        return awaited_by(self.actions)


class Decision(Struct, Generic[ActionT, StatusT], frozen=True):
    """The last word of a sync.

    The actions are carried out one after the other; the first that fails ends the
    sync. Then `status` is reported: what the object should say about itself,
    `None` if this sync does not judge that. `reasons` say what the object still
    waits for; there are none if it is as its spec wants it. `next_look`, in
    seconds, asks for another sync when no change of an object would bring one.
    `retry` says that the sync ends unfinished: an exception is raised, and the key
    is retried with a backoff.
    """

    actions: tuple[ActionT, ...] = ()
    status: StatusT | None = None
    reasons: tuple[Reason, ...] = ()
    next_look: float | None = None
    retry: Requeue | Exception | None = None


class Applier(Protocol[ViewT, ActionT_contra, StatusT_contra]):
    """Carries out what was decided."""

    async def apply(self, view: ViewT, action: ActionT_contra) -> ViewT:
        """Carry out one action; return the view with what it taught.

        Raises what the client raises, unless the answer is part of what it teaches.
        """

    async def report(self, view: ViewT, status: StatusT_contra) -> None:
        """Write the status, unless the object says the same already."""


class TooManySteps(RuntimeError):  # noqa: N818 - says what is wrong
    """A `decide` did not come to a decision; this is a defect of it."""


async def decide_and_apply(
    view: ViewT,
    decide: Callable[[ViewT, datetime], Step[ActionT] | Decision[ActionT, StatusT]],
    applier: Applier[ViewT, ActionT, StatusT],
    clock: Clock,
    logger: Logger,
) -> Outcome:
    """Call `decide` and carry out what it says, until it comes to a decision.

    Returns the outcome for the worker. Reasons are logged at ``-v=4``. Raises what
    the applier raises, the decision's own exception, and TooManySteps if there is
    no decision after `MAX_STEPS` steps.
    """
    for _ in range(MAX_STEPS):
        decided = decide(view, clock.now())
        _log(decided.reasons, logger)
        for action in decided.actions:
            view = await applier.apply(view, action)
        if isinstance(decided, Step):
            continue
        if decided.status is not None:
            await applier.report(view, decided.status)
        return _outcome(decided)
    msg = f"no decision after {MAX_STEPS} steps"
    raise TooManySteps(msg)


def awaited_by(actions: Iterable[Action]) -> tuple[Reason, ...]:
    """Return what the actions await, in their order."""
    reasons = (action.awaits for action in actions)
    return tuple(reason for reason in reasons if reason is not None)


def _log(reasons: tuple[Reason, ...], logger: Logger) -> None:
    if not reasons:
        return
    log = logger.v(4)
    for reason in reasons:
        about = reason.object
        log.info(
            "Waiting",
            waiting_for=reason.waiting_for,
            since=reason.since,
            kind=about.kind,
            object=f"{about.namespace}/{about.name}",
        )


def _outcome(decision: Decision[Any, Any]) -> Outcome:
    match decision.retry:
        case None:
            return Done(decision.next_look)
        case Requeue() as requeue:
            return requeue
        case error:
            raise error
