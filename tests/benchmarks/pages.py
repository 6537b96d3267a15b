"""Files of runs, and the tables of pages of docs that show their medians."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

Run = TypeVar("Run", bound=msgspec.Struct)


def read_runs(path: Path, of: type[Run]) -> list[Run]:
    """Return the runs of a file, or none if it does not exist."""
    if not path.exists():
        return []
    return msgspec.json.decode(path.read_bytes(), type=list[of])  # type: ignore[valid-type]


def write_runs(path: Path, runs: Iterable[Run]) -> None:
    """Write runs in order of all but their `figures`, of which three digits stay."""
    rounded = [
        msgspec.structs.replace(
            each,
            figures={k: float(f"{v:.3g}") for k, v in each.figures.items()},  # type: ignore[attr-defined]
        )
        for each in sorted(runs, key=_place)
    ]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rounded)) + b"\n")


def _place(run: msgspec.Struct) -> list[object]:
    values = msgspec.structs.asdict(run)
    return [values[each] for each in values if each not in ("figures", "contender")]


def update_page(text: str, file: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return a page with these tables behind the marks that name them and a file."""
    mark = rf"(<!-- (\w+) of docs/{re.escape(file)} -->\n\n).*?(\n\n)"
    return re.sub(
        mark,
        lambda found: found[1] + tables[found[2]]() + found[3],
        text,
        flags=re.DOTALL,
    )


def table(rows: Sequence[Sequence[str]], numbers: str = "---") -> str:
    """Return a table in Markdown; `numbers` aligns all columns but the first."""
    head, *others = rows
    lines = [head, ["---", *[numbers] * (len(head) - 1)], *others]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def rounded(value: float) -> str:
    """Return a number with all digits before the point, or with two digits."""
    if abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"
