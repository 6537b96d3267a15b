"""The values of all flags, from the file and from the command line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .controller_options import ControllerOptions
from .document import FileError, defaults, read_file
from .durations import parse_duration
from .flag_set import FlagSet
from .gates import Gate
from .values import default_value, parse_flag, parse_number


class KnownControllers(Protocol):
    """The controllers of a build; the registry implements this protocol."""

    @property
    def flags(self) -> FlagSet:
        """All flags."""

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The feature gates that have an effect."""

    @property
    def options(self) -> tuple[type[ControllerOptions], ...]:
        """The options classes of all controllers."""

    @property
    def names(self) -> list[str]:
        """The names of the controllers."""

    def check_selection(self, selection: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return problems and warnings about the entries of ``--controllers``."""


class OptionsError(Exception):
    """Values that cannot be used: `problems` has one line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Options:
    """The values of all flags, the origin of each, and the problems."""

    def __init__(
        self, given: Mapping[str, Sequence[str]], build: KnownControllers
    ) -> None:
        """Read the file that ``--config`` names, then the flags, which win over it."""
        self.build = build
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.values = defaults(build.flags)
        self._origins: dict[str, str] = {}
        if texts := given.get("config"):
            self._read(Path(texts[-1]))
        for flag in build.flags:
            if flag.name not in given or flag.name == "config":
                continue
            self._origins[flag.path] = f"--{flag.name}"
            try:
                self.values[flag.path] = parse_flag(flag, given[flag.name])
            except ValueError as error:
                self.problem(flag.name, f"invalid argument: {error}")
                self.values[flag.path] = default_value(flag)

    def _read(self, path: Path) -> None:
        try:
            found = read_file(path, self.build.flags)
        except FileError as error:
            self.problems += error.problems
            return
        # A field with the default value needs no warning.
        self._origins |= {
            field: f"--config {path}: {field}"
            for field, value in found.items()
            if value != self.values.get(field)
        }
        self.values |= found

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - by the flag's type
        """Return the value of a flag."""
        return self.values[self.build.flags[name].path]

    def seconds(self, name: str) -> float:
        """Return the value of a flag that is a duration."""
        return parse_duration(self[name])

    def words(self, name: str) -> tuple[str, ...]:
        """Return the value of a flag that is a list."""
        return tuple(self[name])

    def origin(self, name: str) -> str:
        """Return the origin of a value: the flag, or the file and the field."""
        return self._origins.get(self.build.flags[name].path, f"--{name}")

    def is_set(self, name: str) -> bool:
        """Tell whether a flag or the file sets it."""
        return self.build.flags[name].path in self._origins

    def problem(self, name: str, *what: str) -> None:
        """Add problems with the value of a flag."""
        self.problems += [f"{self.origin(name)}: {each}" for each in what]

    def warn(self, name: str, *what: str) -> None:
        """Add warnings about the value of a flag."""
        self.warnings += [f"{self.origin(name)}: {each}" for each in what]

    def not_negative(self, name: str) -> float:
        """Return the value of a flag in seconds; a negative one is a problem."""
        seconds = self.seconds(name)
        if seconds < 0:
            self.problem(name, f"must not be negative, it is {self[name]}")
        return seconds

    def positive(self, name: str) -> float:
        """Return the value of a flag in seconds; 0 and less is a problem."""
        seconds = self.seconds(name)
        if seconds <= 0:
            self.problem(name, f"must be longer than 0s, it is {self[name]}")
        return seconds

    def numbers(self, name: str, convert: Callable[[str], float]) -> dict[str, float]:
        """Return the value of a flag that maps names to numbers.

        An entry for which `convert` raises ValueError is a problem, and left out.
        """
        numbers: dict[str, float] = {}
        for key, text in self[name].items():
            try:
                numbers[key] = convert(text)
            except ValueError:
                wanted = "a number" if convert is parse_number else "a whole number"
                self.problem(name, f"{key}={text}: not {wanted}")
        return numbers
