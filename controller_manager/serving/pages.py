"""The data that the server shows, as functions that the manager gives it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from prometheus_client import CollectorRegistry

from controller_manager.version import COMPONENT, VERSION

from .answers import Pieces
from .health import HealthCheck
from .main_loop import MainLoop, SameLoop

Checks = Callable[[], Mapping[str, HealthCheck]]
DebugPage = Callable[[Mapping[str, list[str]]], tuple[str, Pieces]]
DebugPages = Mapping[str, DebugPage]
"""Functions by page name; each takes a query and returns media type and pieces."""


def _no_checks() -> Mapping[str, HealthCheck]:
    return {}


@dataclass(frozen=True, slots=True)
class Pages:
    """The data to serve; the functions are called for each request.

    The `main` loop calls them. Only `beside` is called in the loop of the server: these
    checks of /healthz and /livez replace the same ones of `healthz`, so they are right
    while the main loop is busy.
    """

    healthz: Checks
    readyz: Checks
    registry: CollectorRegistry
    before_scrape: Callable[[], None]
    debug: Callable[[], Mapping[str, DebugPages]]
    key_reports: Callable[[str, str], Sequence[msgspec.Struct] | None]
    """Returns the reports about a key of a controller, `None` without that one."""
    started_at: datetime
    main: MainLoop = field(default_factory=SameLoop)
    beside: Checks = _no_checks
    preview: DebugPage | None = None
    """The page ``/debug/preview`` of a preview."""
    component: str = COMPONENT
    """The name of the process, which /flagz and /statusz show."""
    version: str = VERSION
