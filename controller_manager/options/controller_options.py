"""The options of one controller, declared as a class beside its code.

Each attribute is made by `option` or `concurrency` and stands for a flag::

    class DeploymentOptions(ControllerOptions):
        concurrent_syncs: int = concurrency("concurrent-deployment-syncs", 5, ...)

Without arguments such a class has the defaults of its flags.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform

from .checks import Check, at_least
from .durations import parse_duration
from .flag import Flag, FlagType, section
from .values import default_value


class InvalidConfiguration(Exception):
    """The flags of a controller contradict each other.

    The text names the flag and the remedy. The daemon does not start.
    """


_ONE_OR_MORE: Final = at_least(1)


def option(
    name: str,
    type_: FlagType,
    default: str | None,
    help_: str,
    path: str = "",
    *,
    section: str = "",
    check: Check | None = None,
) -> Any:  # noqa: ANN401 - an attribute of the flag's type
    """Return an attribute that a `Flag` of these values sets.

    A duration becomes a float of seconds, a list a tuple.

    >>> class WebsiteOptions(ControllerOptions):
    ...     timeout: float = option("website-timeout", "duration", "1m30s", "A time.")
    >>> WebsiteOptions().timeout
    90.0
    """
    return Flag(name, type_, default, help_, path, section=section, check=check)


def concurrency(
    name: str,
    default: int,
    path: str,
    what: str,
    *,
    section: str = "",
    check: Check = _ONE_OR_MORE,
) -> Any:  # noqa: ANN401 - an int
    """Return an attribute: how many objects a controller syncs at a time."""
    text = (
        f"The number of {what} that are allowed to sync concurrently. Larger "
        "number = more responsive, but more CPU (and network) load."
    )
    return option(name, "int32", str(default), text, path, section=section, check=check)


@dataclass_transform(frozen_default=True)
class ControllerOptions:
    """The values of one controller's flags; equal if all of them are.

    A class of its own instead of a dataclass: that costs a third of a millisecond for
    each controller at every start, this a hundredth.

    >>> class WebsiteOptions(ControllerOptions):
    ...     prefix: str = option("website-prefix", "string", "web-", "Of deployments.")
    >>> WebsiteOptions(prefix="w-").prefix
    'w-'
    """

    flags: ClassVar[Mapping[str, Flag]] = {}
    """The flags by attribute."""

    def __init_subclass__(cls) -> None:
        """Collect the flags of the class.

        Raises ValueError if the default of a flag is no value of its type.
        """
        declared = {
            name: value for name, value in vars(cls).items() if isinstance(value, Flag)
        }
        for name, flag in declared.items():
            setattr(cls, name, _default(flag))
        cls.flags = declared

    def __init__(self, *values: Any, **named: Any) -> None:  # noqa: ANN401 - as declared
        given = dict(zip(self.flags, values, strict=False)) | named
        if len(values) > len(self.flags) or given.keys() - self.flags.keys():
            msg = f"{type(self).__name__} has only {', '.join(self.flags)}"
            raise TypeError(msg)
        for name in self.flags:
            value = given[name] if name in given else getattr(type(self), name)
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse changes."""
        msg = f"{type(self).__name__}.{name} cannot be changed to {value!r}"
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        """Tell whether all values are equal."""
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the values by attribute."""
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


OptionsT = TypeVar("OptionsT", bound=ControllerOptions)


def flags_of(
    options: type[ControllerOptions] | None, controller: str
) -> tuple[Flag, ...]:
    """Return the flags that an options class declares for a controller."""
    if options is None:
        return ()
    return section(controller.capitalize(), *options.flags.values())


def make_options(options: type[OptionsT], value_of: Callable[[str], Any]) -> OptionsT:
    """Return options with the values of their flags; `value_of` takes a flag's name."""
    values = {
        name: _converted(flag, value_of(flag.name))
        for name, flag in options.flags.items()
    }
    return options(**values)


def _default(flag: Flag) -> Any:  # noqa: ANN401 - by the flag's type
    try:
        return _converted(flag, default_value(flag))
    except (KeyError, ValueError) as error:
        msg = f"--{flag.name}: {flag.default!r} is no default of the type {flag.type}"
        raise ValueError(msg) from error


def _converted(flag: Flag, value: Any) -> Any:  # noqa: ANN401 - by the flag's type
    if flag.type == "duration":
        return parse_duration(value)
    return tuple(value) if isinstance(value, list) else value
