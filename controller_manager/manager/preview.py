"""The preview of a manager: it runs beside the manager in charge and writes nothing."""

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from controller_manager.client.builder import Connections
from controller_manager.clock import Clock
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger
from controller_manager.options.config import PreviewConfig
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.worker import until_done
from controller_manager.serving.answers import Pieces
from controller_manager.serving.pages import DebugPage

from .runnable import Lifetime, Runnable

if TYPE_CHECKING:  # most managers have no preview, and its modules are many
    from controller_manager.preview.absentees import Absentee
    from controller_manager.preview.preview import Preview


@dataclass(eq=False)
class PreviewGroup(Runnable):
    """Judges the writes of the preview; without a preview it does nothing."""

    preview: "Preview | None"
    defects: Defects
    _task: asyncio.Task[None] | None = field(init=False, default=None)

    @property
    def page(self) -> DebugPage | None:
        """The page ``/debug/preview``: text, or JSON with ``output=json``."""
        return None if self.preview is None else self._page

    def _page(self, query: Mapping[str, list[str]]) -> tuple[str, Pieces]:
        from controller_manager.preview.report import (  # noqa: PLC0415 - the preview's
            encode,
            text_of,
        )

        report = self.preview.report() if self.preview is not None else None
        if report is None:
            return "text/plain; charset=utf-8", _pieces(b"")
        if query.get("output") == ["json"]:
            return "application/json", _pieces(encode(report))
        return "text/plain; charset=utf-8", _pieces(text_of(report).encode())

    async def run(self, life: Lifetime) -> None:
        """Start to judge."""
        if self.preview is not None:
            failed = partial(self.defects.report, "preview")
            running = until_done(self.preview.run, failed, life.stop)
            self._task = life.tasks.create_task(running, name="preview")

    async def stop(self) -> None:
        """Judge no more."""
        if self._task is not None:
            self._task.cancel()


def _pieces(body: bytes) -> Pieces:
    yield body


def make_preview(
    config: PreviewConfig,
    connections: Connections,
    absent: Iterable[Descriptor],
    *,
    clock: Clock,
    rng: random.Random,
    registry: CollectorRegistry,
    logger: Logger,
) -> "Preview | None":
    """Return the preview that a configuration asks for.

    `absent` are the controllers that it does not run.
    """
    if not config.enabled:
        return None
    from controller_manager.preview.preview import (  # noqa: PLC0415 - see above
        Preview,
    )

    return Preview(
        config,
        connections.manager,
        map(_absentee, absent),
        clock=clock,
        rng=rng,
        registry=registry,
        logger=logger.bind(component="preview"),
    )


def _absentee(descriptor: Descriptor) -> "Absentee":
    from controller_manager.preview.absentees import (  # noqa: PLC0415 - see above
        Absentee,
    )

    makes = tuple(
        (resource.group_resource, kind) for resource, kind in descriptor.makes
    )
    return Absentee(descriptor.name, makes, descriptor.evicts_as)


def without_writes(connections: Connections, preview: "Preview | None") -> Connections:
    """Return connections over which a preview writes nothing.

    All controllers have the manager's own identity: a token of a service account would
    be a write. Other clusters are not reached: nobody judges writes to them. The
    connections that review users stay as they are.
    """
    if preview is None:
        return connections
    return replace(
        connections,
        manager=preview.transport(),
        anonymous=None,
        lease=None,
        of_controller=preview.transport,
        clusters={},
    )
