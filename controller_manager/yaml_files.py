"""Reads YAML files that a person wrote; errors name the file and the line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_MALFORMED: Final = (
    yaml.YAMLError,
    # The parser raises these for a scalar that does not fit its tag.
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class UnreadableFile(Exception):  # noqa: N818 - an obvious name
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


def _load(text: str, *, unique_keys: bool) -> list[Any]:
    """Return the documents; the errors are those of the loader in Python."""
    try:
        return list(yaml.load_all(text, _FastUnique if unique_keys else _FastLoader))
    except _MALFORMED:
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
    except _MALFORMED as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None)
        if isinstance(error, UnicodeDecodeError):
            problem = "not UTF-8 text"
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
