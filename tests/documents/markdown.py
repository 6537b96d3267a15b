"""Reading Markdown: code, links, headings, tables; as GitHub shows them."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(
    r"^`(?P<path>[^`\n]+)`\n```\w*\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL
)
_SPAN: Final = re.compile(r"`([^`\n]+)`")
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_DEFINITION: Final = re.compile(r"\[`((?!\w+\.py`)[\w.]+)`\]\(([^)\s]+\.py)\)")
_HEADING: Final = re.compile(r"^(#+) +(.+?)$", re.MULTILINE)
_SEPARATORS: Final = frozenset(("&&", "||", ";", "|", "&", "(", ")"))


def anchor_of(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@dataclass(frozen=True)
class Page:
    """One document: `path` is where it stands, links in it are relative to that."""

    path: Path
    text: str

    @classmethod
    def at(cls, path: Path) -> "Page":
        return cls(path, path.read_text())

    @cached_property
    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    @property
    def spans(self) -> list[str]:
        return _SPAN.findall(self.prose)

    @property
    def links(self) -> list[str]:
        return _LINK.findall(_SPAN.sub("", self.prose))

    @property
    def definitions(self) -> list[tuple[str, str]]:
        return _DEFINITION.findall(self.prose)

    def blocks(self, language: str) -> list[str]:
        return [code for name, code in _FENCE.findall(self.text) if name == language]

    @cached_property
    def files(self) -> dict[str, str]:
        """The files that are shown whole: the line before the code is the path."""
        return {each["path"]: each["content"] for each in _FILE.finditer(self.text)}

    @cached_property
    def anchors(self) -> set[str]:
        """The anchors that a link may name after the sign #."""
        seen: Counter[str] = Counter()
        anchors = set()
        for _, title in _HEADING.findall(self.prose):
            slug = anchor_of(title)
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        return anchors

    def section(self, title: str) -> str:
        """Return what stands under a heading; raises KeyError without that heading."""
        headings = list(_HEADING.finditer(self.text))
        for found in headings:
            if found[2] != title:
                continue
            later = (
                each.start()
                for each in headings
                if each.start() > found.end() and len(each[1]) <= len(found[1])
            )
            return self.text[found.end() : next(later, len(self.text))]
        raise KeyError(title)


def rows(section: str) -> list[list[str]]:
    lines = section.split("\n")
    found = []
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and "|---" not in line and "|---" not in following:
            found.append([cell.strip() for cell in line.strip("| ").split(" |")])
    return found


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a shell block: its words, and the file that takes its output."""

    words: list[str]
    output: str = ""


def commands(script: str) -> Iterator[Command]:
    """Yield the simple commands of a script, those of ``sh -c`` included."""
    for line in script.replace("\\\n", " ").split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in _SEPARATORS:
                words.append(word)
                continue
            if words:
                yield _command(words)
            if words[:2] == ["sh", "-c"]:
                yield from commands(words[2])
            words = []


def _command(words: list[str]) -> Command:
    if ">" not in words:
        return Command(words)
    position = words.index(">")
    return Command(words[:position], words[position + 1])
