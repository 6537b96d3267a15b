"""What a controller promises: the form in which it tells the simulation.

A controller has a module ``properties`` beside its tests, which names a subclass of
`Properties` as ``PROPERTIES``. The simulation finds it by itself: in this tree
(``tests/controllers/AREA/NAME/properties.py``), by the entry points of installed
packages (group ``controller_manager.simulation``, each naming a module), and by
``python -m tests.simulation --properties MODULE``.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from controller_manager.client.transport import Request, Response
from controller_manager.options.config import Config
from tests.simulation.changes import Change
from tests.simulation.objects import Target
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager
    from tests.simulation.workload import Workload

JSON = dict[str, Any]

Violate = Callable[[str], None]
"""Takes what was seen and must never be."""

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Write:
    """One write that a controller sent, and what became of it.

    `before` and `after` are the object that it is about, `None` where there is
    none. `is_late` says that its process was stopped while it was on its way: it
    was decided on what was so then.
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
        """The verb as roles have it."""
        if self.request.method == "DELETE":
            return "delete" if self.target.name else "deletecollection"
        return _VERBS[self.request.method]

    @property
    def answered(self) -> JSON:
        """The object that the server answered with."""
        answered: JSON = json.loads(self.answer.body)
        return answered

    def __str__(self) -> str:
        return f"{self.request.method} {self.request.path}"


def anything(*_: object) -> bool:
    """Allow every change."""
    return True


@dataclass(frozen=True, slots=True)
class May:
    """Writes that a controller may send.

    `resource` is one as roles have it, ``pods`` or ``pods/status``; ``*`` is any,
    without subresources. `changes` tells which values an update or a patch may
    change in an object that is there; all others must come out as they were.
    """

    verbs: tuple[str, ...]
    resource: str
    changes: Change = anything

    def covers(self, write: Write) -> bool:
        """Tell whether a write is one of these, whatever it changes."""
        resource = write.target.resource
        fits = self.resource == resource or (
            self.resource == "*" and not write.target.subresource
        )
        return fits and write.verb in self.verbs


class Properties:
    """What one controller promises; made anew for each run of a world.

    Only `controller` and `may_write` must be given: a controller that sends a
    write which it did not name is reported. Whatever is yielded is a violation.
    """

    controller: ClassVar[str]
    """Its name in ``--controllers``."""

    may_write: ClassVar[tuple[May, ...]] = ()
    """Every write that it may send; events aside."""

    bounded: ClassVar[tuple[str, ...]] = ()
    """Collections of its own that keep the last few of a sort, by the last two
    attributes that lead to them: what is gone may stand there for a while."""

    workload: "ClassVar[type[Workload] | None]" = None
    """What users do with its objects, if anything."""

    def __init__(self, state: State) -> None:
        """Take what can be looked at."""
        self.state = state

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Return the config with what makes the controller have something to do."""
        return config

    def watching(self, violate: Violate) -> AbstractContextManager[None]:
        """Return what watches the controller's decisions while it is entered."""
        del violate
        return nullcontext()

    def before_write(self) -> None:
        """Look at what there is before a write of anybody's."""

    def after_write(self, write: Write) -> Iterator[str]:
        """Yield what is wrong with a write that was carried out, whoever sent it."""
        del write
        yield from ()

    def broken_invariants(self) -> Iterator[str]:
        """Yield what is wrong at this moment, after a write.

        Only the sieve asks this, where users and managers act and nobody else.
        """
        yield from ()

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Yield what is wrong once nothing happens any more."""
        del managers
        yield from ()

    def end_state(self) -> JSON:
        """Return what users see in the end; it is the same without any faults.

        Generated names and times must be left out.
        """
        return {}
