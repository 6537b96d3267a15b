"""Decodes objects as Go does, by the types of their fields.

Upstream: sigs.k8s.io/json, which regards the case of names and reports unknown and
duplicate fields. The result is the object as Go would write it again, but without
fields that the body does not have.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from controller_manager.api.json_objects import JSON

from .models import Type
from .readers import ABSENT, Read, Repeated, TypeMismatch, go_kind, plans, zero

MOST_PROBLEMS: Final = 100
"""The most unknown and duplicate fields of an object that are reported."""


class Decoder:
    """Decodes one object.

    The first value of a wrong type raises TypeMismatch in the end. A text that is no
    quantity, time or base64 raises it at once.
    """

    def __init__(self) -> None:
        self._problems: dict[str, None] = {}
        self._path: list[str | int | tuple[str]] = []
        self._model = ""
        self._first: TypeMismatch | None = None
        self._is_silent = False

    @property
    def problems(self) -> list[str]:
        """The unknown and duplicate fields, in the order of the body."""
        return list(self._problems)[:MOST_PROBLEMS]

    def decode(self, obj: JSON, model: str, path: Iterable[str | int] = ()) -> JSON:
        """Return an object of a model; `path` are the fields around it.

        Raises TypeMismatch.
        """
        self._path = list(path)
        found = self.struct(obj, model)
        if self._first is not None:
            raise self._first
        return found

    def struct(self, obj: JSON, model: str) -> JSON:
        """Read the fields of a struct."""
        known = plans(model)
        around, self._model = self._model, model
        path = self._path
        result: JSON = {}
        pairs = obj.items() if type(obj) is dict else self._pairs(obj, known)
        for name, value in pairs:
            plan = known.get(name)
            if plan is None:
                self._report("unknown", name)
            elif type(value) is plan.exact:
                if value or plan.keeps:
                    result[name] = value
            elif value is not None:
                path.append(name)
                found = plan.read(self, value)
                path.pop()
                if found or (plan.keeps and found is not ABSENT):
                    result[name] = found
        self._model = around
        return result

    def items(self, values: list[Any], item: Type, read: Read) -> list[Any]:
        """Read the items of a list."""
        result = []
        path = self._path
        path.append(0)
        for number, value in enumerate(values):
            path[-1] = number
            found = zero(item) if value is None else read(self, value)
            if found is not ABSENT:
                result.append(found)
        path.pop()
        return result

    def entries(self, values: JSON, item: Type, read: Read) -> JSON:
        """Read the values of a map."""
        result: JSON = {}
        path = self._path
        pairs = values.items() if type(values) is dict else self._pairs(values, None)
        for name, value in pairs:
            path.append((name,))
            found = zero(item) if value is None else read(self, value)
            path.pop()
            if found is not ABSENT:
                result[name] = found
        return result

    def _pairs(
        self, obj: JSON, known: Iterable[str] | None
    ) -> Iterator[tuple[str, Any]]:
        """Yield the fields of an object that may have names twice, and report these.

        Go reports a repeated field of a struct only if the struct has the field.
        """
        seen: set[str] = set()
        for name, value in obj.pairs if isinstance(obj, Repeated) else obj.items():
            if name in seen and (known is None or name in known):
                self._report("duplicate", name)
            seen.add(name)
            yield name, value

    def silently(self, value: JSON, model: str) -> JSON:
        """Read a struct that Go reads without regard to unknown fields."""
        silent, self._is_silent = self._is_silent, True
        found = self.struct(value, model)
        self._is_silent = silent
        return found

    def _report(self, problem: str, name: str) -> None:
        if not self._is_silent:
            where = _shown([*self._path, name])
            self._problems[f'{problem} field "{where}"'] = None

    def mismatch(self, value: Any, wanted: str) -> Any:
        """Note a value of another type than is `wanted`, and return ABSENT."""
        if self._first is None:
            self._first = self.wrong_text(value, wanted)
        return ABSENT

    def wrong_text(self, value: Any, wanted: str) -> TypeMismatch:
        """Return the error of a value of another type than is `wanted`."""
        fields = ".".join(each for each in self._path if isinstance(each, str))
        struct = self._model.rpartition(".")[2]
        return TypeMismatch(
            f"json: cannot unmarshal {go_kind(value, wanted)} into Go struct field "
            f"{struct}.{fields} of type {wanted}"
        )


def _shown(path: Iterable[str | int | tuple[str]]) -> str:
    """Return a path with the keys of maps and the numbers of items."""
    shown = ""
    for each in path:
        if isinstance(each, int):
            shown += f"[{each}]"
            continue
        name = each if isinstance(each, str) else each[0]
        shown += f".{name}" if shown else name
    return shown
