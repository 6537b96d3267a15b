"""Sends the writes of slices (finalize, deleteEndpointSlice)."""

from collections.abc import Callable
from typing import Final

from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.client.client import Client, DeleteOptions
from controller_manager.client.errors import (
    APIError,
    NotFound,
    ProtocolError,
    TransportError,
    is_about,
    is_namespace_terminating,
)

from .actions import SliceActions
from .template import with_trigger_time
from .tracker import SliceTracker

_FAILURES: Final = (APIError, ProtocolError, TransportError)


class SliceWriteError(Exception):
    """A slice was not written; the message names it, and `cause` is the failure."""

    def __init__(self, message: str, cause: Exception) -> None:
        """Take the message, without the failure, and the failure."""
        super().__init__(f"{message}: {cause}")
        self.cause = cause


class SliceWriter:
    """Creates, updates and deletes slices, and records each write in the tracker."""

    def __init__(
        self,
        client: Client,
        tracker: SliceTracker,
        written: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Take the client and the tracker.

        `written` is called after each write, with ``create``, ``update`` or ``delete``.
        """
        self._client = client
        self._tracker = tracker
        self._written = written

    async def write(
        self, about: str, changes: SliceActions, trigger_time: str, *, may_create: bool
    ) -> None:
        """Create slices, then update, then delete, so that no endpoint is missing.

        `about` names the owner, for messages. Without `may_create` nothing
        is created: an owner that is being deleted gets no new slices, which the garbage
        collector would have to delete. In a namespace that is being deleted, nothing
        more is written.

        Raises SliceWriteError for the first write that fails. An update carries the
        version of the slice that it is made from, a deletion its uid.
        """
        for new in changes.create if may_create else ():
            if not await self._create(about, with_trigger_time(new, trigger_time)):
                return
        for existing in changes.update:
            await self._update(about, with_trigger_time(existing, trigger_time))
        for existing in changes.delete:
            await self.delete(about, existing)

    async def _create(self, about: str, new: EndpointSlice) -> bool:
        """Create a slice; return False if its namespace is being deleted."""
        try:
            stored = await self._client.create_for_metadata(ENDPOINT_SLICES, new)
        except _FAILURES as error:
            if is_namespace_terminating(error):
                return False
            msg = f"failed to create EndpointSlice for {about}"
            raise SliceWriteError(msg, error) from error
        self._tracker.wrote(stored)
        self._written("create")
        return True

    async def _update(self, about: str, existing: EndpointSlice) -> None:
        try:
            stored = await self._client.update_for_metadata(ENDPOINT_SLICES, existing)
        except _FAILURES as error:
            msg = f"failed to update {existing.metadata.name} EndpointSlice for {about}"
            raise SliceWriteError(msg, error) from error
        self._tracker.wrote(stored)
        self._written("update")

    async def delete(self, about: str, existing: EndpointSlice) -> None:
        """Delete a slice, unless it is gone already.

        Raises SliceWriteError if that fails.
        """
        metadata = existing.metadata
        # The watch event may come before the response.
        self._tracker.deleted(existing)
        options = DeleteOptions(uid=metadata.uid)
        try:
            await self._client.delete(
                ENDPOINT_SLICES, metadata.namespace, metadata.name, options
            )
        except _FAILURES as error:
            if _is_gone(error, metadata.name):
                return
            self._tracker.kept(existing)
            msg = f"failed to delete {metadata.name} EndpointSlice for {about}"
            raise SliceWriteError(msg, error) from error
        self._written("delete")


def _is_gone(error: Exception, name: str) -> bool:
    """Tell whether a deletion failed because the slice is gone.

    A conflict does not mean that: another slice may have the name now, but a webhook
    may return a conflict, too. The next sync looks at the cache again.
    """
    return isinstance(error, NotFound) and is_about(error, name)
