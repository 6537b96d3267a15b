"""The output of the demo: new lines, or a live table on a terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from controller_manager.clock import Clock

from .rows import Row

_BAR: Final = 20
"""Columns of a progress bar."""


class Screen:
    """Prints to a console; times are counted from its creation."""

    def __init__(self, console: Console, clock: Clock) -> None:
        """Take the console; a terminal shows tables that change, others lines."""
        self._console = console
        self._clock = clock
        self._shown: dict[str, str] = {}
        self._began = clock.monotonic()

    @property
    def is_terminal(self) -> bool:
        """True if the console shows tables that change."""
        return self._console.is_terminal

    def title(self, text: str) -> None:
        """Print the title of a step."""
        self._console.print(f"\n[bold]{text}[/bold]")

    def line(self, text: str) -> None:
        """Print one line as it is."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def answer(self, command: str, text: str) -> None:
        """Print a command and its answer, indented, with all brackets."""
        lines = [f"$ {command}", *text.rstrip().splitlines()]
        shown = "\n".join(f"         {each}".rstrip() for each in lines)
        self._console.print(shown, highlight=False, markup=False, soft_wrap=True)

    def line_if_new(self, key: str, text: str) -> None:
        """Print a line with the time, unless it is the last one of that key."""
        if self._shown.get(key) != text:
            self._shown[key] = text
            elapsed = self._clock.monotonic() - self._began
            self.line(f"{elapsed:6.1f}s  {text}")

    @contextmanager
    def following(self) -> Iterator[Callable[[Sequence[Row]], None]]:
        """Return a function that shows the present rows, until left."""
        if not self.is_terminal:
            yield self._show_new
            return
        with Live(console=self._console, refresh_per_second=10) as live:
            yield lambda rows: live.update(_table(rows))

    def _show_new(self, rows: Sequence[Row]) -> None:
        for each in rows:
            self.line_if_new(f"{each.kind}/{each.name}", each.line)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("KIND", "NAME", "DONE", "IMAGE", "", "PROGRESS"):
        table.add_column(title)
    for each in rows:
        style = "green" if each.is_complete else "yellow"
        table.add_row(
            each.kind,
            f"[{style}]{each.name}[/]",
            f"{each.done}/{each.total}",
            each.image,
            ProgressBar(total=max(each.total, 1), completed=each.done, width=_BAR),
            each.progress,
        )
    return table
