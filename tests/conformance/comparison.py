"""The differences of a played scenario from its recording, in lines for a reader."""

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.world.objects import differences

_CHANGES: Final = ("update", "patch")
_NAMING: Final = ("verb", "resource", "name", "code")


def of_checkpoints(ours: Sequence[JSON], recorded: Sequence[JSON]) -> Iterator[str]:
    """Yield a line for each difference, with the recorded value first."""
    nothing: JSON = {}
    for played, expected in zip_longest(ours, recorded, fillvalue=nothing):
        where = expected.get("check") or played.get("check") or ""
        for path, wanted, got in differences(expected, played):
            yield f"at {where!r}: {'.'.join(path)}: {_text(wanted)} | {_text(got)}"


def of_writes(ours: Sequence[JSON], recorded: Sequence[JSON]) -> Iterator[str]:
    """Yield a line for each write: of both, of upstream alone, or of us alone.

    ``=`` stands before a write of both, ``~`` if it is sent differently; what differs
    follows, with the recorded value first. ``-`` stands before a write that only
    upstream sends, ``+`` before one that only this build sends.
    """
    matcher = SequenceMatcher(
        None, list(map(_token, recorded)), list(map(_token, ours)), autojunk=False
    )
    for what, left, left_end, right, right_end in matcher.get_opcodes():
        if what == "equal":
            pairs = zip(recorded[left:left_end], ours[right:right_end], strict=True)
            for theirs, mine in pairs:
                yield from _of_pair(theirs, mine)
            continue
        for each in recorded[left:left_end]:
            yield f"- {_line(each)}  {_text(_content(each))}"
        for each in ours[right:right_end]:
            yield f"+ {_line(each)}  {_text(_content(each))}"


def _of_pair(theirs: JSON, mine: JSON) -> Iterator[str]:
    found = list(differences(_content(theirs), _content(mine)))
    yield f"{'~' if found else '='} {_line(theirs)}"
    yield from _indented(
        f"{'.'.join(path)}: {_text(wanted)} | {_text(got)}"
        for path, wanted, got in found
    )


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"      {each}" for each in lines)


def _token(write: JSON) -> tuple[str, ...]:
    verb = "change" if write["verb"] in _CHANGES else write["verb"]
    return verb, *(str(write.get(each)) for each in _NAMING[1:])


def _content(write: JSON) -> JSON:
    return {key: each for key, each in write.items() if key not in _NAMING}


def _line(write: JSON) -> str:
    named = write.get("name", "")
    return f"{write['code']} {write['verb']} {write['resource']} {named}".rstrip()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
