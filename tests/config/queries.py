"""The queries of the dashboard, the alerts and the runbooks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.config.manifests import MONITORING, documents
from tests.documents.markdown import Page

ROOT: Final = Path(__file__).parents[2]
PLAIN: Final = MONITORING / "prometheus"
RUNBOOKS: Final = ROOT / "docs" / "runbooks"

VARIABLES: Final = {"$job": "kube-controller-manager", "$controller": ".*"}
"""The default choices of the dashboard."""

_SELECTOR: Final = re.compile(r"\b([a-z_]+)\{[^}]*\}")


def rules() -> list[JSON]:
    return [
        rule
        for directory in ("operator", "trial-operator")
        for each in documents(MONITORING / directory / "prometheus-rule.yaml")
        for group in each["spec"]["groups"]
        for rule in group["rules"]
    ]


def dashboard() -> JSON:
    found: JSON = json.loads((MONITORING / "dashboard.json").read_text())
    return found


def panels() -> list[JSON]:
    """Return the panels of the dashboard that show something: no rows."""
    return [each for each in dashboard()["panels"] if each["type"] != "row"]


def of_panels() -> Iterator[tuple[str, str]]:
    """Yield the titles and queries of the panels, with the default choices."""
    for panel in panels():
        for target in panel["targets"]:
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            yield panel["title"], query


def of_alerts() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule["alert"], rule["expr"]


def of_runbooks() -> Iterator[tuple[str, str]]:
    """Yield the names and queries of the runbooks, one a line."""
    for path in sorted(RUNBOOKS.glob("*.md")):
        for block in Page.at(path).blocks("promql"):
            for line in block.splitlines():
                yield path.stem, line


def selectors(query: str) -> set[str]:
    return {found[0] for found in _SELECTOR.finditer(query)}


def metrics(query: str) -> set[str]:
    return {found[1] for found in _SELECTOR.finditer(query)}
