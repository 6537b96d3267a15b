"""Checks of a page: each check returns its problems."""

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
from click.testing import CliRunner

from controller_manager.cli.command import make_command
from tests.benchmarks.__main__ import main as benchmarks
from tests.benchmarks.devcluster.__main__ import main as devcluster_benchmarks
from tests.benchmarks.operators.__main__ import main as operators
from tests.benchmarks.sizing.__main__ import main as sizing
from tests.conformance.__main__ import main as conformance
from tests.documents.facts import FLAG, ROOT, flags
from tests.documents.markdown import Command, Page, commands
from tests.world.__main__ import main as world

TOOLS = {
    "tests.world": world,
    "tests.benchmarks": benchmarks,
    "tests.benchmarks.devcluster": devcluster_benchmarks,
    "tests.benchmarks.operators": operators,
    "tests.benchmarks.sizing": sizing,
    "tests.conformance": conformance,
}
EXAMPLES = ROOT / "examples"
DECLARED = re.compile(r"""\b(?:Flag|option)\(\s*"([a-z0-9-]+)",""")
CLUSTER = re.compile(r'in_cluster\("([-a-z]+)"\)')
LOCAL = re.compile(r"(?:controller_manager|tests|config|docs|examples)/\S*")

OF_PROGRAMS = {
    "any": "flag",
    "kubectl": (
        "image as as-group as-uid audience clusterrole from-file list resource "
        "resource-name role verb replicas requests min max cpu-percent watch "
        "cascade validate server-side copy-to force-conflicts field-manager "
        "show-managed-fields prune applyset client-certificate client-key token user "
        "raw all for force ignore-not-found namespace wait tail since since-time "
        "timestamps limit-bytes field-selector subresource type previous cert key"
    ),
    "py-spy": "pid output format nonblocking duration",
    "pytest": "seed durations",
    "docker": "from interval retries start-period timeout tag build-arg",
    "pip": "no-cache-dir no-compile yes",
    "curl": "insecure silent",
    "uv": "generate-hashes python-version universal upgrade",
    "ruff, kubeadm": "check patches",
}
OTHERS = {f"--{name}" for names in OF_PROGRAMS.values() for name in names.split()}
"""Flags of other programs."""

PROGRAMS = frozenset(
    (
        *(".", "base64", "bash", "cat", "cd", "chmod", "cp", "crictl", "curl"),
        *("docker", "echo", "grep", "kubectl", "lint-imports", "make", "mkdir"),
        *("mkdocs", "mypy", "openssl", "pip", "printf", "py-spy", "rm", "ruff", "sed"),
        *("sh", "sha256sum", "tee", "touch", "uv"),
    )
)
"""Programs whose arguments are not looked at."""


def flag_problems(page: Page) -> list[str]:
    known = OTHERS | flags() | declared_flags(page)
    return sorted(set(FLAG.findall(page.text)) - known)


def declared_flags(page: Page) -> set[str]:
    sources = [path.read_text() for path in EXAMPLES.rglob("*.py")]
    sources += page.files.values()
    named = {f"--{name}" for text in sources for name in DECLARED.findall(text)}
    clusters = {name for text in sources for name in CLUSTER.findall(text)}
    return named | {f"--kubeconfig-{name}" for name in clusters}


def link_problems(page: Page) -> list[str]:
    return [link for link in page.links if not _leads_somewhere(page, link)]


def _leads_somewhere(page: Page, link: str) -> bool:
    if link.startswith("https://"):
        return True
    file, _, anchor = link.partition("#")
    target = (page.path.parent / file).resolve() if file else page.path
    if not target.exists():
        return False
    return not anchor or anchor in Page(target, target.read_text()).anchors


def definition_problems(page: Page) -> list[str]:
    """Return the names of links to Python files that do not define them."""
    return [
        f"{name} of {file}"
        for name, file in page.definitions
        if name not in _defined((page.path.parent / file).resolve())
    ]


@cache
def _defined(path: Path) -> set[str]:
    """Return the classes and functions of a module, methods as ``Class.method``."""
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    names = set()
    for node in ast.parse(path.read_text() if path.exists() else "").body:
        if isinstance(node, kinds):
            names.add(node.name)
            names |= {
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, kinds)
            }
    return names


def path_problems(page: Page) -> list[str]:
    words = [word for span in page.spans for word in span.split()]
    return [word for word in words if LOCAL.fullmatch(word) and not _exists(page, word)]


def _exists(page: Page, path: str) -> bool:
    """Tell whether a path is there, or will be once the page was followed.

    A test is named by its file and its function.
    """
    path, _, test = path.partition("::")
    made = {*page.files, *(str(Path(each).parent) for each in page.files)}
    if test:
        return f"def {test}(" in (ROOT / path).read_text()
    return (ROOT / path).exists() or path in made


def python_problems(page: Page) -> list[str]:
    return [
        problem
        for code in page.blocks("python")
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for problem in _import_problems(node, page)
    ]


def _import_problems(node: ast.ImportFrom | ast.Import, page: Page) -> Iterator[str]:
    names = [each.name for each in node.names]
    modules: dict[str, list[str]]
    if isinstance(node, ast.Import):
        modules = {name: [] for name in names}
    else:
        modules = {node.module or "": names}
    for module, members in modules.items():
        if not module.startswith("controller_manager"):
            continue
        if f"{module.replace('.', '/')}.py" in page.files:
            continue
        if not _is_module(module):
            yield module
            continue
        found = importlib.import_module(module)
        for member in members:
            if not hasattr(found, member) and not _is_module(f"{module}.{member}"):
                yield f"{module}:{member}"


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def command_problems(page: Page) -> list[str]:
    """Return the problems of commands in shell blocks and between backticks.

    Those that print a configuration are carried out, where files may be written.
    """
    scripts = page.blocks("sh")
    scripts += [
        span
        for span in page.spans
        if span.startswith(("controller-manager ", "python -m ", "pytest "))
    ]
    return [
        f"{' '.join(command.words)}: {problem}"
        for script in scripts
        for command in commands(script)
        if (problem := _command_problem(command, page))
    ]


def _command_problem(command: Command, page: Page) -> str:
    match command.words:
        case ["sudo", "$(command -v controller-manager)", *arguments]:
            # sudo does not look in the virtual environment of its caller.
            return _daemon_problem(arguments, command.output)
        case ["sudo", *words]:
            return _command_problem(Command(words, command.output), page)
        case ["controller-manager", *arguments]:
            return _daemon_problem(arguments, command.output)
        case ["python" | "python3", "-m", module, *arguments] if module in TOOLS:
            return _parsed(TOOLS[module], arguments)
        case ["python" | "python3", "-m", module, *_]:
            return "" if importlib.util.find_spec(module) else f"no module {module}"
        case ["pytest", *arguments]:
            paths = [each for each in arguments if each.startswith("tests/")]
            return "".join(each for each in paths if not _exists(page, each))
        case [program, *_] if program in PROGRAMS or (ROOT / program).exists():
            return ""
        case [program, *_]:
            return f"{program} is not a known program"
    return ""


def _daemon_problem(arguments: list[str], output: str) -> str:
    root = make_command()
    if arguments == ["--version"]:
        return ""
    if arguments and arguments[0] in ("completion", "config"):
        result = CliRunner().invoke(root, arguments)
        if output:
            Path(output).write_text(result.stdout)
        return result.output if result.exit_code else ""
    if arguments and not arguments[0].startswith("-"):
        subcommand = root.get_command(click.Context(root), arguments[0])
        if subcommand is None:
            return f"there is no command {arguments[0]}"
        return _parsed(subcommand, arguments[1:])
    result = CliRunner().invoke(root, ["config", *arguments])
    return result.output if result.exit_code else ""


def _parsed(command: click.Command, arguments: list[str]) -> str:
    try:
        command.make_context(command.name, list(arguments))
    except click.exceptions.Exit:
        return ""  # it is asked for help
    except click.ClickException as error:
        return error.format_message()
    return ""


def configuration_problems(page: Page) -> list[str]:
    """Return what the daemon says of the configuration files that a page shows."""
    problems = []
    for block in page.blocks("yaml"):
        if "kind: KubeControllerManagerConfiguration" in block:
            Path("shown.yaml").write_text(block)
            arguments = ["config", "--config", "shown.yaml"]
            result = CliRunner().invoke(make_command(), arguments)
            problems += [result.output] if result.exit_code else []
    return problems


CHECKS = (
    flag_problems,
    link_problems,
    definition_problems,
    path_problems,
    python_problems,
    command_problems,
    configuration_problems,
)
