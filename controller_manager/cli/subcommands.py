"""Subcommands of installed packages, found by entry points.

An entry point of the group ``controller_manager.commands`` has the name of the
subcommand, and names a `click.Command`. The command finds the controllers of the build,
a `Registry`, as the object of its context, and the function that explains an object, an
`Explain`, under the key `EXPLAIN` of the context's meta. Its module is imported when
the subcommand is called, or when its help is shown.
"""

from collections.abc import Awaitable, Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NoReturn

import click

from controller_manager.client.rest.transport import Transport
from controller_manager.clock import Clock

from .failure import Failure

GROUP: Final = "controller_manager.commands"

EXPLAIN: Final = "controller_manager.explain"
"""The key of the click context under which subcommands find an `Explain`."""

Explain = Callable[[Transport, Clock, str, str, int], Awaitable[str]]
"""Returns the answer about an object as text.

It takes a transport, its clock, a namespace, ``KIND/NAME``, and the width of a line.
"""


def found_names() -> frozenset[str]:
    """Return the names of all subcommands of installed packages."""
    return frozenset(each.name for each in entry_points(group=GROUP))


def found_command(name: str) -> click.Command | None:
    """Return the subcommand of a name, `None` if no package has it.

    A subcommand that cannot be imported has a help that says so, and fails with the
    same line when it is called. So does a name that two packages have.
    """
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        return None
    if len(found) > 1:
        owners = " and ".join(sorted(map(_owner, found)))
        problem = f"has the same name in {owners}; uninstall one of them"
        return _unusable(name, problem)
    (entry_point,) = found
    try:
        loaded = entry_point.load()
    except Exception as error:  # noqa: BLE001 - code of another package
        return _unusable(name, _import_problem(entry_point, error))
    if isinstance(loaded, click.Command):
        return loaded
    where = f"{entry_point.value} of {_owner(entry_point)}"
    return _unusable(name, f"{where} is not a click.Command; repair the package")


def _owner(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist else "an unknown package"


def _import_problem(entry_point: EntryPoint, error: Exception) -> str:
    # Texts of errors may have several lines; this is a part of one.
    why = " ".join(f"{type(error).__name__}: {error}".split())
    owner = _owner(entry_point)
    extras = f"[{','.join(entry_point.extras)}]" if entry_point.extras else ""
    return (
        f"cannot be imported from {entry_point.module} of {owner}: {why}; install the "
        f"package again, with everything it needs: pip install '{owner}{extras}'"
    )


def _unusable(name: str, problem: str) -> click.Command:
    """Return a stand-in for a subcommand: its help and its failure tell the problem."""

    def fail(**_: object) -> NoReturn:
        raise Failure([f"the subcommand {name} {problem}"])

    return click.Command(
        name,
        callback=fail,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        help=f"Not usable: it {problem}.",
        context_settings={"ignore_unknown_options": True},
    )
