"""The options of one controller, declared as a dataclass beside its code.

Each field is made by `option` and stands for a flag::

    @dataclass(frozen=True, slots=True)
    class DeploymentOptions:
        concurrent_syncs: int = option(concurrency("concurrent-deployment-syncs", ...))

Without arguments such a class has upstream's defaults.
"""

from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, Final, TypeVar

from controller_manager.options.durations import parse_duration
from controller_manager.options.flag import Flag, section
from controller_manager.options.values import default_value

OptionsT = TypeVar("OptionsT")

_FLAG: Final = "flag"


def option(flag: Flag) -> Any:  # noqa: ANN401 - a field of whatever type the flag has
    """Return a dataclass field that a flag sets; its default is the flag's.

    A duration becomes a float of seconds, a list a tuple.
    """
    default = _converted(flag, default_value(flag))
    return field(default=default, metadata={_FLAG: flag})


def flags_of(options: type[Any] | None, controller: str) -> tuple[Flag, ...]:
    """Return the flags that an options class declares for a controller."""
    if options is None:
        return ()
    title = controller.capitalize()
    return section(title, *(each.metadata[_FLAG] for each in fields(options)))


def make_options(options: type[OptionsT], value_of: Callable[[str], Any]) -> OptionsT:
    """Return options with the values of their flags; `value_of` takes a flag's name."""
    values: dict[str, Any] = {}
    for each in fields(options):  # type: ignore[arg-type]
        flag: Flag = each.metadata[_FLAG]
        values[each.name] = _converted(flag, value_of(flag.name))
    return options(**values)


def _converted(flag: Flag, value: Any) -> Any:  # noqa: ANN401 - by the flag's type
    if flag.type == "duration":
        return parse_duration(value)
    return tuple(value) if isinstance(value, list) else value
