"""Facts about the program: flags, texts of its source, metrics."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
from click.testing import CliRunner

from controller_manager.cli.command import make_command
from controller_manager.devcluster.testing.plugin import OPTIONS
from controller_manager.runtime.admission import WebhookOptions
from tests.benchmarks.__main__ import main as benchmarks
from tests.benchmarks.devcluster.__main__ import main as devcluster_benchmarks
from tests.benchmarks.operators.__main__ import main as operators
from tests.benchmarks.sizing.__main__ import main as sizing
from tests.conformance.__main__ import main as conformance
from tests.world.__main__ import main as world

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "controller_manager"

FLAG = re.compile(r"--[a-z][a-z0-9-]*[a-z0-9]")
METRIC_TYPES = frozenset(
    (
        "Counter",
        "CounterMetricFamily",
        "Gauge",
        "GaugeMetricFamily",
        "Histogram",
        "PlainCounter",
    )
)


@cache
def help_of(*arguments: str) -> str:
    return CliRunner().invoke(make_command(), [*arguments, "--help"]).output


@cache
def flags() -> frozenset[str]:
    group = make_command()
    names = group.list_commands(click.Context(group))
    texts = [help_of(), *map(help_of, names)]
    texts += [help_of("devcluster", each) for each in ("restore", "snapshot")]
    texts += [help_of("preview", "report")]
    texts += [
        CliRunner().invoke(each, ["--help"]).output
        for each in (
            world,
            benchmarks,
            devcluster_benchmarks,
            operators,
            sizing,
            conformance,
        )
    ]
    texts += [f"--{option.name}" for option in OPTIONS]
    texts += [f"--{each.name}" for each in WebhookOptions.flags.values()]
    return frozenset(FLAG.findall(" ".join(texts)))


@cache
def defaults_by_section() -> dict[str, dict[str, str]]:
    """Return each flag's default by the section of the help, empty for none."""
    sections: dict[str, dict[str, str]] = {}
    for title, text in re.findall(
        r"^(\S[^\n]*) flags:\n\n(.*?)(?=^\S|\Z)", help_of(), re.MULTILINE | re.DOTALL
    ):
        flags = sections.setdefault(title.lower(), {})
        for name, about in re.findall(
            r"^ +(?:-\w, )?(--\S+).*\n((?: {10}.*\n)*)", text, re.MULTILINE
        ):
            default = re.search(r"\(default (.*?)\)", " ".join(about.split()))
            flags[name] = default[1].strip('"') if default else ""
    return sections


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


@cache
def strings() -> frozenset[str]:
    return frozenset(
        node.value
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def metrics() -> Iterator[tuple[Path, str]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args:
                function, first = node.func, node.args[0]
                name = function.id if isinstance(function, ast.Name) else ""
                if name in METRIC_TYPES and isinstance(first, ast.Constant):
                    yield path, str(first.value)
