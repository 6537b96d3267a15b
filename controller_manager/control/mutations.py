"""New objects that admission has changed, and the delay before the next attempt.

An owner recognises a child by the template that it has. A mutating webhook or policy
that changes the template of each new child makes the owner create one after the other,
in upstream without a pause. The answer of a creation is compared with the request.
After a difference the owner asks by a dry run, after a growing delay, whether admission
still changes such an object, and creates the next one only once it does not.
"""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.meta import CompleteObject, key_of
from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import ExponentialBackoff

FIRST_DELAY: Final = 1.0
REVISION_MUTATED: Final = "RevisionMutated"
"""The reason of the event about a changed revision; upstream has none."""

LONGEST_DELAY: Final = 300.0
"""Seconds between two attempts; the delay doubles from the first to the longest."""


class Mutation(Struct, frozen=True):
    """A change that admission made to a new object.

    `name` is the object that was created first, `field` the first field that differs.
    The next attempt is due in `seconds`. `sent` stands for the content that was sent.
    `problem` is the error of the last dry run, which could not tell.
    """

    name: str
    field: str
    seconds: float
    sent: str = ""
    problem: str = ""

    @property
    def message(self) -> str:
        """The change, and the end of the wait, for users."""
        problem = f"; the last dry run failed: {self.problem}" if self.problem else ""
        return (
            f'Admission has changed {self.field} of the new object "{self.name}", so '
            "that its owner does not recognise it; the next attempt waits until "
            f"the owner changes or admission leaves the field as it is{problem}"
        )


class _Known(Struct):
    uid: str
    generation: int
    due: float
    mutation: Mutation


class Mutations:
    """The owners whose last new child was changed by admission, by key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._backoff = ExponentialBackoff(FIRST_DELAY, LONGEST_DELAY)

    def of(self, owner: CompleteObject) -> Mutation | None:
        """Return the mutation of an owner's last new child, `None` for none.

        A change of the owner's spec makes the next attempt due.
        """
        key, metadata = key_of(owner), owner.metadata
        known = self._known.get(key)
        if known is None:
            return None
        if known.uid != metadata.uid:
            self.forget(key)
            return None
        if known.generation != metadata.generation:
            known.generation, known.due = metadata.generation, 0.0
            self._backoff.forget(key)
        left = known.due - self._clock.monotonic()
        return replace(known.mutation, seconds=max(0.0, left))

    def found(
        self, owner: CompleteObject, name: str, field: str, sent: str = ""
    ) -> Mutation:
        """Note that admission has changed a field of a new child; return the delay.

        While the same content is sent, the name of the first such child is kept.
        """
        key, metadata = key_of(owner), owner.metadata
        known = self._known.get(key)
        if known is not None and known.mutation.sent == sent:
            name = known.mutation.name
        mutation = Mutation(name, field, self._backoff.when(key), sent)
        due = self._clock.monotonic() + mutation.seconds
        self._known[key] = _Known(metadata.uid, metadata.generation, due, mutation)
        return mutation

    def not_told(
        self, owner: CompleteObject, known: Mutation, error: Exception
    ) -> Mutation:
        """Note that a dry run failed, so the next one waits; return the delay."""
        again = self.found(owner, known.name, known.field, known.sent)
        again = replace(again, problem=str(error) or repr(error))
        self._known[key_of(owner)].mutation = again
        return again

    def forget(self, key: str) -> None:
        """Forget an owner that is gone, or that has the child that it needs."""
        if self._known.pop(key, None) is not None:
            self._backoff.forget(key)


def first_difference(sent: Any, stored: Any, path: str) -> str:  # noqa: ANN401 - JSON
    """Return the path of the first field in which two values differ, "" for none.

    For example ``spec.containers[0].image``. Lists of different lengths differ as a
    whole.
    """
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key in sorted(sent.keys() | stored.keys()):
            below = f"{path}.{key}" if path else key
            if found := first_difference(sent.get(key), stored.get(key), below):
                return found
        return ""
    if isinstance(sent, list) and isinstance(stored, list):
        if len(sent) != len(stored):
            return path
        for number, pair in enumerate(zip(sent, stored, strict=True)):
            if found := first_difference(*pair, f"{path}[{number}]"):
                return found
        return ""
    return "" if sent == stored else path
