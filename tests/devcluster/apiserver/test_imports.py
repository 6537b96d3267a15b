"""The imports of the server: no module imports itself through other modules."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from controller_manager.devcluster import apiserver

ROOT = Path(next(iter(apiserver.__path__)))


def test_the_modules_of_the_server_form_no_circle() -> None:
    modules = dict(map(_named, sorted(ROOT.rglob("*.py"))))
    imports = {
        name: {each for each in _imported(tree) if each in modules}
        for name, tree in modules.items()
    }
    assert imports[apiserver.__name__] == set()
    assert len(imports) > 20
    order = list(TopologicalSorter(imports).static_order())  # CycleError names a circle
    assert set(order) == set(modules)


def _named(file: Path) -> tuple[str, ast.Module]:
    parts = file.relative_to(ROOT).with_suffix("").parts
    names = [apiserver.__name__, *(each for each in parts if each != "__init__")]
    return ".".join(names), ast.parse(file.read_text())


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module may import a module by."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = [f"{node.module}.{each.name}" for each in node.names]
            yield from (node.module, *members)
