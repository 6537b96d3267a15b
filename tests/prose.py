"""Point at phrases that a reader of plain English has to read twice.

``python -m tests.prose [PATH ...]`` shows them with the rule that each breaks, for the
whole tree or for some files. CONTRIBUTING.md has the rules with examples.
``tests/data/prose_exceptions.txt`` lists the sentences that may stay, most of them
messages of upstream.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).parents[1]
EXCEPTIONS: Final = ROOT / "tests" / "data" / "prose_exceptions.txt"
_PYTHON: Final = ("controller_manager", "tests", "examples")
_DOCUMENTS: Final = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("docs", "examples", "tests", ".changes"),
)

_START: Final = re.compile(
    r"(?:^|(?<=[.:!?] )|(?<=\n\n)|(?<=\n- ))"
    r"(?:What|Who|Whose|Whether|Nobody|Which|How(?! to\b))\b[^.?!]*(?P<end>[.?!:]|$)"
)
_PHRASE: Final = re.compile(
    r"\b(?:what (?:is|it|they|was|are|were|has|have)|who (?:has|is|have)"
    r"|nobody|no one|whoever|whatever)\b",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"``.*?``|`[^`\n]*`", re.DOTALL)
_FENCED: Final = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
_MARKER: Final = re.compile(r" *(#+|\d+\.|[-*>|])(?: +|$)")
"""The beginning of a line of Markdown that is no paragraph's."""

_WORDS_OF_A_SENTENCE: Final = 3


@dataclass(frozen=True)
class Text:
    """A piece of prose, and where it begins."""

    path: Path
    line: int
    text: str


@dataclass(frozen=True)
class Finding:
    """A phrase that breaks a rule."""

    path: Path
    line: int
    rule: str
    sentence: str

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if ROOT in self.path.parents else self.path
        return f"{path}:{self.line}: {self.rule}: {self.sentence}"


def findings(texts: Iterator[Text], allowed: frozenset[str]) -> Iterator[Finding]:
    """Yield the phrases in texts that break a rule, without the allowed sentences."""
    for each in texts:
        quoted = _QUOTED.sub(lambda match: re.sub(r"[^\n]", "`", match[0]), each.text)
        for rule, place in _broken(quoted):
            line = each.line + each.text.count("\n", 0, place)
            sentence = _sentence(each.text, place)
            if sentence not in allowed:
                yield Finding(each.path, line, rule, sentence)


def _broken(text: str) -> Iterator[tuple[str, int]]:
    """Yield the rules that a text breaks, with the places."""
    for match in _START.finditer(text):
        if match["end"] != "?":
            yield "begin with the subject or a verb", match.start()
    for match in _PHRASE.finditer(text):
        if not _START.match(text, match.start()):
            yield "name the thing or the person", match.start()


def _sentence(text: str, place: int) -> str:
    """Return the sentence around a place, on one line."""
    ends = re.compile(r"[.?!](?=\s|$)|\n\s*\n|\n- ")
    start = max((each.end() for each in ends.finditer(text, 0, place)), default=0)
    end = ends.search(text, place)
    return " ".join(text[start : end.end() if end else len(text)].split())


def texts_of_python(path: Path) -> Iterator[Text]:
    """Yield docstrings, comments, messages and the names of tests of a module.

    Tests hold data of other programs: of their strings only docstrings are read.
    """
    source = path.read_text()
    tree = ast.parse(source)
    docstrings = {id(each) for each in _docstrings(tree)}
    is_test = "tests" in path.relative_to(ROOT).parts
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) in docstrings or (
                not is_test and text.count(" ") >= _WORDS_OF_A_SENTENCE
            ):
                yield Text(path, node.lineno, text)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if (
                name.startswith("test_")
            ):
                words = name.removeprefix("test_").replace("_", " ")
                yield Text(path, node.lineno, words)
    yield from _comments(path, source)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield docstrings, those of attributes and constants included."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as constant):
                    yield constant


def _comments(path: Path, source: str) -> Iterator[Text]:
    """Yield comments; lines that follow each other are one text."""
    lines: list[str] = []
    first = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if lines and token.start[0] != first + len(lines):
            yield Text(path, first, "\n".join(lines))
            lines = []
        if not lines:
            first = token.start[0]
        lines.append(token.string.lstrip("#").strip())
    if lines:
        yield Text(path, first, "\n".join(lines))


def texts_of_document(path: Path) -> Iterator[Text]:
    """Yield paragraphs, items and cells of a Markdown document, without its code."""
    text = _FENCED.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        marker = _MARKER.match(line)
        if lines and (marker or not line.strip()):
            yield Text(path, number - len(lines), "\n".join(lines))
            lines = []
        if marker and marker[1] == "|":
            yield from (Text(path, number, each.strip()) for each in line.split("|"))
        elif line.strip():
            lines.append(line[marker.end() :] if marker else line.strip())


_READERS: Final[dict[str, Callable[[Path], Iterator[Text]]]] = {
    ".py": texts_of_python,
    ".md": texts_of_document,
}


def files() -> Iterator[Path]:
    """Yield the files of the tree that hold prose; data of tests does not count."""
    for suffix, places in ((".py", _PYTHON), (".md", _DOCUMENTS)):
        for place in places:
            found = ROOT / place
            if found.is_file():
                yield found
            else:
                yield from sorted(found.rglob(f"*{suffix}"))


def texts(paths: Iterator[Path]) -> Iterator[Text]:
    """Yield the texts of files."""
    for path in paths:
        if ROOT / "tests" / "data" not in path.parents:
            yield from _READERS[path.suffix](path)


def exceptions() -> frozenset[str]:
    """Return the sentences that may stay as they are."""
    return frozenset(EXCEPTIONS.read_text().splitlines())


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(paths: tuple[Path, ...]) -> None:
    """Show the phrases that break a rule; exit with 1 if there are any."""
    chosen = [each.resolve() for each in paths] or [ROOT]
    wanted = (
        each
        for each in files()
        if any(place == each or place in each.parents for place in chosen)
    )
    found = list(findings(texts(wanted), exceptions()))
    for each in found:
        click.echo(str(each))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
