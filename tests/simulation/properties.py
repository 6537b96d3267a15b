"""The properties that a controller promises to the simulation.

A controller has a module ``properties`` beside its tests, which names a subclass of
`Properties` as ``PROPERTIES``. The simulation finds it: in this tree
(``tests/controllers/AREA/NAME/properties.py``), by the entry points of installed
packages (group ``controller_manager.simulation``, each naming a module), and by
``python -m tests.simulation --properties MODULE``.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.options.config import Config
from tests.simulation.changes import Change
from tests.simulation.objects import Target
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager
    from tests.simulation.workload import Workload


Violate = Callable[[str], None]
"""Reports a violation, given its text."""

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Write:
    """One write that a controller sent, and its result.

    `before` and `after` are the written object, `None` where it does not exist.
    `is_late` says that the process was paused while the write was in flight: it was
    decided on an earlier state.
    """

    controller: str
    target: Target
    request: Request
    answer: Response
    before: JSON | None
    after: JSON | None
    is_late: bool = False

    @property
    def verb(self) -> str:
        """The verb as RBAC rules name it."""
        if self.request.method == "DELETE":
            return "delete" if self.target.name else "deletecollection"
        return _VERBS[self.request.method]

    @property
    def answered(self) -> JSON:
        """The object in the server's answer."""
        answered: JSON = json.loads(self.answer.body)
        return answered

    def __str__(self) -> str:
        return f"{self.request.method} {self.request.path}"


def anything(*_: object) -> bool:
    """Allow every change."""
    return True


@dataclass(frozen=True, slots=True)
class AllowedWrite:
    """Writes that a controller may send.

    `resource` is named as in RBAC rules, ``pods`` or ``pods/status``; ``*`` is any,
    without subresources. `changes` tells which values an update or a patch may
    change in an existing object; all other values must stay the same.
    """

    verbs: tuple[str, ...]
    resource: str
    changes: Change = anything

    def covers(self, write: Write) -> bool:
        """Tell whether the verb and the resource of a write are allowed."""
        resource = write.target.resource
        fits = self.resource == resource or (
            self.resource == "*" and not write.target.subresource
        )
        return fits and write.verb in self.verbs


class Properties:
    """The promises of one controller; a new instance for each run of a world.

    Only `controller` and `may_write` must be set: a write that `may_write` does not
    allow is reported. Every text that a method yields is a violation.
    """

    controller: ClassVar[str]
    """The controller's name in ``--controllers``."""

    may_write: ClassVar[tuple[AllowedWrite, ...]] = ()
    """Every write that the controller may send, except events."""

    bounded: ClassVar[tuple[str, ...]] = ()
    """Its collections that keep a limited number of entries, by the last two
    attributes of their path: deleted objects may stay there for a while."""

    workload: "ClassVar[type[Workload] | None]" = None
    """The actions of users on its objects, if there are any."""

    def __init__(self, state: State) -> None:
        """Take the state of the API server."""
        self.state = state

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Return the config with changes that give the controller something to do."""
        return config

    def watching(self, violate: Violate) -> AbstractContextManager[None]:
        """Return a context that checks the controller's decisions while entered."""
        del violate
        return nullcontext()

    def before_write(self) -> None:
        """Look at the state before a write of any client."""

    def after_write(self, write: Write) -> Iterator[str]:
        """Yield violations of a write that was carried out, by any sender."""
        del write
        yield from ()

    def broken_invariants(self) -> Iterator[str]:
        """Yield violations of the state at this moment, after a write.

        Only the sieve calls this: there, only users and managers change objects.
        """
        yield from ()

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Yield violations of the final state."""
        del managers
        yield from ()

    def end_state(self) -> JSON:
        """Return the final state as users see it; it is the same without any faults.

        Generated names and times must be left out.
        """
        return {}
