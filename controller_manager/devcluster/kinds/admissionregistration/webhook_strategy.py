"""The behaviour of both kinds of webhook configurations."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

from .webhooks import apply_webhook_defaults, validate_webhooks


class WebhookConfigurationStrategy(Strategy):
    """Fills in the defaults of webhooks, and checks them."""

    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("Webhooks", "integer"), AGE)

    def __init__(self, *, mutates: bool) -> None:
        """Take what the webhooks may do: change objects, or only refuse them."""
        self._mutates = mutates

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults of the webhooks."""
        apply_webhook_defaults(obj, mutates=self._mutates)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the webhooks."""
        return validate_webhooks(obj, mutates=self._mutates)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), len(obj.get("webhooks") or ()), age(obj, now)]
