"""The split of a reconcile into a decision and its application.

::

    view ─decide→ Step ─apply→ view' ─decide→ Step ─apply→ view'' ─decide→ Decision

A view is an immutable value: the relevant objects, as the caches show them. A function
`decide` takes a view and a time and returns the actions to carry out. It is pure: it
does not wait, it has no client, no cache, no logger and no clock of its own, and it
never changes its view. So a test can compare its decisions with tables, and a command
can show the actions without carrying them out. An `Applier` carries out the actions,
and is the only part that waits for the network.

If the next choice depends on a response of the API server, `decide` returns a
`Step`. The applier carries out its actions and returns a view that contains the
responses. Then `decide` is called again with that view. A `Decision` ends the sync.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import KubeObject
from controller_manager.api.resource import Resource
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.runtime.outcome import Done, Failed, Outcome, Reason, Requeue

MAX_STEPS: Final = 16
"""The most steps of one sync; a `decide` that returns more steps has a defect."""

ViewT = TypeVar("ViewT")
ActionT = TypeVar("ActionT", bound="Action")
ActionT_contra = TypeVar("ActionT_contra", bound="Action", contravariant=True)
StatusT = TypeVar("StatusT")
StatusT_contra = TypeVar("StatusT_contra", contravariant=True)


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
        """The reason to wait until the action has taken effect, `None` for no wait."""


class Step(Struct, Generic[ActionT], frozen=True):
    """Carry out the actions, then decide again with the new view."""

    actions: tuple[ActionT, ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons for which the actions wait."""
        return awaited_by(self.actions)


class Decision(Struct, Generic[ActionT, StatusT], frozen=True):
    """The result that ends a sync.

    The actions are carried out one after the other; the first that fails ends the
    sync. Then `status` is written as the object's new status; `None` leaves the
    status as it is. `reasons` say what the object still waits for; there are none
    if it is as its spec wants it. `requeue_after`, in seconds, asks for another sync
    that no change of an object would cause, also if an action fails. `retry` says that
    the sync is not finished: a `Requeue` becomes the outcome; after an exception the
    key is retried with a backoff.
    """

    actions: tuple[ActionT, ...] = ()
    status: StatusT | None = None
    reasons: tuple[Reason, ...] = ()
    requeue_after: float | None = None
    retry: Requeue | Exception | None = None


class Applier(Protocol[ViewT, ActionT_contra, StatusT_contra]):
    """Carries out the actions of a decision."""

    async def apply(self, view: ViewT, action: ActionT_contra) -> ViewT:
        """Carry out one action; return the view with the result of the action.

        Raises what the client raises, unless the view records that error.
        """

    async def report(self, view: ViewT, status: StatusT_contra) -> None:
        """Write the status, unless the object has that status already."""


class TooManySteps(RuntimeError):
    """A `decide` returned no decision after the most steps; it has a defect."""


async def decide_and_apply(
    view: ViewT,
    decide: Callable[[ViewT, datetime], Step[ActionT] | Decision[ActionT, StatusT]],
    applier: Applier[ViewT, ActionT, StatusT],
    clock: Clock,
    logger: Logger,
) -> Outcome:
    """Call `decide` and carry out its actions, until it returns a decision.

    Returns the outcome for the worker, which is `Failed` if the last actions fail or
    the decision has an exception to `retry`. Reasons are logged at ``-v=4``. Raises
    what the applier raises before there is a decision, and TooManySteps if there is
    none after `MAX_STEPS` steps.
    """
    for _ in range(MAX_STEPS):
        decided = decide(view, clock.now())
        log_reasons(decided.reasons, logger)
        if isinstance(decided, Decision):
            return await _carry_out(view, decided, applier)
        for action in decided.actions:
            view = await applier.apply(view, action)
    msg = f"no decision after {MAX_STEPS} steps"
    raise TooManySteps(msg)


def awaited_by(actions: Iterable[Action]) -> tuple[Reason, ...]:
    """Return the reasons for which the actions wait, in their order."""
    reasons = (action.awaits for action in actions)
    return tuple(reason for reason in reasons if reason is not None)


def log_reasons(reasons: tuple[Reason, ...], logger: Logger) -> None:
    """Log at ``-v=4`` what an object waits for."""
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


async def _carry_out(
    view: ViewT,
    decision: Decision[ActionT, StatusT],
    applier: Applier[ViewT, ActionT, StatusT],
) -> Outcome:
    try:
        for action in decision.actions:
            view = await applier.apply(view, action)
        if decision.status is not None:
            await applier.report(view, decision.status)
    except Exception as error:  # noqa: BLE001 - the worker reports it
        return Failed(error, decision.requeue_after)
    match decision.retry:
        case None:
            return Done(decision.requeue_after, decision.reasons)
        case Requeue() as requeue:
            return requeue
        case failure:
            return Failed(failure, decision.requeue_after)
