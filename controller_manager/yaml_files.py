"""Reading YAML that a person wrote, with errors that a person can act on."""

from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml


class UnreadableFile(Exception):  # noqa: N818 - says what it is
    """A file is not there or is no YAML; the message is one line."""


def read_documents(file: Path | Traversable, where: str) -> list[Any]:
    """Return the documents of a YAML file.

    Raises UnreadableFile, whose message begins with `where` and names the line.
    """
    try:
        return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    except OSError as error:
        msg = f"{where}: {error.strerror}"
        raise UnreadableFile(msg) from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None)
        if isinstance(error, UnicodeDecodeError):
            problem = "not UTF-8 text"
        shown = " ".join(str(problem or error).split())
        msg = f"{where}{line}: not valid YAML: {shown}"
        raise UnreadableFile(msg) from error


def read_document(file: Path | Traversable, where: str) -> Any:  # noqa: ANN401 - YAML
    """Return the one document of a YAML file, `None` if it is empty.

    Raises UnreadableFile, for more than one document, too.
    """
    documents = read_documents(file, where)
    if len(documents) > 1:
        msg = f"{where}: has {len(documents)} documents, it must be one"
        raise UnreadableFile(msg)
    return documents[0] if documents else None
