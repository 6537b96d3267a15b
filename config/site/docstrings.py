"""Examples in docstrings are code blocks on the site (an extension of griffe)."""

import re
from typing import Any

import griffe

_PARAGRAPH = re.compile(r"\n\s*\n")


class Examples(griffe.Extension):
    """Fences each paragraph that begins with a prompt of Python."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            paragraphs = _PARAGRAPH.split(obj.docstring.value)
            obj.docstring.value = "\n\n".join(map(_fenced, paragraphs))


def _fenced(paragraph: str) -> str:
    is_example = paragraph.lstrip().startswith(">>>")
    return f"```pycon\n{paragraph}\n```" if is_example else paragraph
