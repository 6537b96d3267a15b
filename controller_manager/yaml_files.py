"""Reads YAML files that a person wrote; errors name the file and the line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

MALFORMED: Final = (
    yaml.YAMLError,
    # The parser raises these for a scalar that does not fit its tag.
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


_MOST_VALUES: Final = 1_000_000
"""The most values in a text after the expansion of its aliases."""

_MOST_LEVELS: Final = 200
"""The greatest depth of a value after the expansion of the aliases."""

_MOST_TAGS: Final = 1000
"""The most directives %TAG: libyaml compares each with all others."""

_LONGEST_NUMBER: Final = 1000
"""The most characters of a number: those of ``1:30:00`` cost their square."""


class UnreadableFile(Exception):
    """A file cannot be read or is not YAML; the message is one line."""


_FastLoader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C, ten times as fast, where PyYAML was built with it."""


class _UniqueKeys:
    """Refuses a mapping in which a key occurs twice; goes before a loader."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - the overridden signature
    ) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen:
                problem = f"the key {key!r} occurs twice"
                raise yaml.constructor.ConstructorError(
                    None, None, problem, key_node.start_mark
                )
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)  # type: ignore[misc]
        return mapping


class _Unique(_UniqueKeys, yaml.SafeLoader):
    """The loader in Python with unique keys."""


class _FastUnique(_UniqueKeys, _FastLoader):  # type: ignore[misc]
    """The loader in C with unique keys."""


class ExcessError(yaml.MarkedYAMLError):
    """A text would take too much time or memory to load."""


def check_limits(text: str) -> None:
    """Raise ExcessError for a text that takes much more time or memory than its length.

    An alias counts as all values of its anchor. Raises YAMLError for a text that is not
    YAML.
    """
    if text.count("%TAG") > _MOST_TAGS:
        raise ExcessError(problem="has too many tag directives")
    values, heights = 0, [0]
    opened: list[tuple[str | None, int]] = []
    sizes: dict[str | None, tuple[int, int]] = {}
    event: Any
    for event in yaml.parse(text, _FastLoader):
        height = 0
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            height = heights.pop() + 1
            sizes[anchor] = values - before, height
        elif isinstance(event, yaml.AliasEvent):
            more, height = sizes.get(event.anchor, (0, 0))
            values += more
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values))
            heights.append(0)
            sizes[event.anchor] = _MOST_VALUES, 0  # inside of itself, it has no end
            values += 1
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1, 0
            values += 1
        heights[-1] = max(heights[-1], height)
        if len(opened) + height > _MOST_LEVELS:
            problem = "exceeded max depth"
        elif values > _MOST_VALUES:
            aliased = "document contains excessive aliasing"
            problem = aliased if "*" in text else f"has more than {_MOST_VALUES} values"
        elif isinstance(event, yaml.ScalarEvent) and _is_long_number(event):
            problem = "has a long number"
        else:
            continue
        raise ExcessError(problem=problem, problem_mark=event.start_mark)


def _is_long_number(scalar: yaml.ScalarEvent) -> bool:
    """Tell whether a scalar without quotes is a number to the base of 60."""
    return (
        not scalar.style
        and len(scalar.value) > _LONGEST_NUMBER
        and not scalar.value.strip("0123456789_:.+-")
    )


def _load(text: str, *, unique_keys: bool) -> list[Any]:
    """Return the documents; the errors are those of the loader in Python."""
    try:
        check_limits(text)
        return list(yaml.load_all(text, _FastUnique if unique_keys else _FastLoader))
    except ExcessError:
        raise
    except MALFORMED:
        return list(yaml.load_all(text, _Unique if unique_keys else yaml.SafeLoader))


def read_documents(
    file: "Path | Traversable", where: str, *, unique_keys: bool = False
) -> list[Any]:
    """Return the documents of a YAML file.

    Raises UnreadableFile, whose message begins with `where` and names the line. With
    `unique_keys` it is raised, too, for a key that occurs twice in a mapping.
    """
    try:
        return _load(file.read_text(encoding="utf-8"), unique_keys=unique_keys)
    except OSError as error:
        msg = f"{where}: {error.strerror}"
        raise UnreadableFile(msg) from error
    except MALFORMED as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None)
        if isinstance(error, UnicodeDecodeError):
            problem = "not UTF-8 text"
        if isinstance(error, RecursionError):
            problem = "exceeded max depth"
        shown = " ".join(str(problem or error).split())
        msg = f"{where}{line}: not valid YAML: {shown}"
        raise UnreadableFile(msg) from error


def read_document(
    file: "Path | Traversable", where: str, *, unique_keys: bool = False
) -> Any:  # noqa: ANN401 - YAML
    """Return the only document of a YAML file, `None` if the file is empty.

    Raises UnreadableFile as `read_documents` does, and for more than one document.
    """
    documents = read_documents(file, where, unique_keys=unique_keys)
    if len(documents) > 1:
        msg = f"{where}: has {len(documents)} documents, it must have one"
        raise UnreadableFile(msg)
    return documents[0] if documents else None
