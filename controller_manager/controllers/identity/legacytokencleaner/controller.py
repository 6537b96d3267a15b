"""Checks all legacy tokens once a day (legacy_serviceaccount_token_cleaner.go).

A pure function decides whether a legacy token stays (evaluateSATokens).

A token that was not used for the clean-up period gets a label that marks it as invalid,
and API servers refuse it. An administrator may remove the label, and the token is valid
again. A token is deleted if the label stays for another period. Dates are days in UTC,
as in the labels.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from controller_manager.api import meta
from controller_manager.api.core.pod_secrets import SECRET_PODS, secret_names
from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    SECRETS,
    SERVICE_ACCOUNT_TOKEN,
    Secret,
)
from controller_manager.api.core.v1 import CONFIG_MAPS, SERVICE_ACCOUNTS, ServiceAccount
from controller_manager.api.scalars import parse_day, parse_time
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import PatchType
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import Done, Outcome, SyncError

from . import TRACKING, LegacyTokenCleanerOptions

LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"


class Decision(Enum):
    """The decision about a token."""

    KEEP = auto()
    INVALIDATE = auto()
    DELETE = auto()


class Limits(Struct, frozen=True):
    """The time since which a token is new, and the day since which it is used."""

    created: datetime
    used: date

    @classmethod
    def of(cls, now: datetime, period: float) -> "Limits":
        """Return the limits for a clean-up period in seconds."""
        limit = now.astimezone(UTC) - timedelta(seconds=period)
        return cls(limit, limit.date())


def tracked_long_enough(since: date, now: datetime, period: float) -> bool:
    """Tell whether the use of tokens has been tracked for the whole period.

    The first day does not count, since only a part of it was tracked.
    """
    midnight = datetime(since.year, since.month, since.day, tzinfo=UTC)
    return now - midnight >= timedelta(days=1, seconds=period)


def is_unused(secret: Secret, limits: Limits) -> bool:
    """Tell whether a token is old, and was not used in the period.

    A token without the label was not used since tracking began. A token with a
    malformed label stays.
    """
    created = secret.metadata.creation_timestamp
    if meta.is_deleting(secret) or not created or parse_time(created) >= limits.created:
        return False
    label = meta.labels_of(secret).get(LAST_USED)
    if label is None:
        return True
    last_used = parse_day(label)
    return last_used is not None and last_used < limits.used


def is_generated_for(secret: Secret, account: ServiceAccount | None) -> bool:
    """Tell whether the account lists the token; users have created the others."""
    if account is None:
        return False
    annotations = meta.annotations_of(secret.metadata)
    uid = annotations.get(ACCOUNT_UID, "")
    return (
        annotations.get(ACCOUNT_NAME) == account.metadata.name
        and uid in ("", account.metadata.uid)
        and any(each.name == secret.metadata.name for each in account.secrets or ())
    )


def decide_unused(secret: Secret, limits: Limits) -> Decision:
    """Return the decision about an unused, generated token."""
    invalid_since = parse_day(meta.labels_of(secret).get(INVALID_SINCE, ""))
    if invalid_since is None:
        return Decision.INVALIDATE
    return Decision.DELETE if invalid_since < limits.used else Decision.KEEP


_PERIOD: Final = 86_400.0
_TOKEN_SECRETS: Final = replace(SECRETS, field_selector=f"type={SERVICE_ACCOUNT_TOKEN}")
"""The controller watches only these secrets; upstream caches all secrets."""


def init_legacy_token_cleaner(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (NewLegacySATokenCleaner)."""
    of = LegacyTokenCleaner(context)
    return context.workers(of.rounds, of.clean, 1, of.enqueue_all)


class LegacyTokenCleaner:
    """Marks unused tokens as invalid, and deletes them a period later."""

    def __init__(self, context: ControllerContext) -> None:
        self.rounds = context.queue(context.name)
        self._client = context.client
        self._reader = context.reader
        self._clock = context.server_clock
        self._logger = context.logger
        self._period = context.config.of(LegacyTokenCleanerOptions).clean_up_period
        self._secrets = context.lister(_TOKEN_SECRETS)
        self._accounts = context.lister(SERVICE_ACCOUNTS)

    def enqueue_all(self) -> Iterator[None]:
        """Start the daily rounds."""
        self.rounds.add("tokens")
        yield

    async def clean(self, key: str) -> Outcome:  # noqa: ARG002 - there is one
        """Check all tokens; requeue for the next day.

        Raises SyncError if a write failed for some tokens, and tries again.
        """
        if not await self._is_tracked():
            return Done(_PERIOD)
        limits = Limits.of(self._clock.now(), self._period)
        unused = [
            each
            for each in self._secrets.all()
            if is_unused(each, limits) and self._is_generated(each)
        ]
        used_names: dict[str, Collection[str]] = {}
        problems: list[str] = []
        failures: list[Exception] = []
        for secret in unused:
            try:
                await self._clean(secret, limits, used_names)
            except errors.NotFound:
                continue
            except errors.RequestError as error:
                problems.append(f"{meta.key_of(secret)}: {error}")
                failures.append(error)
        if problems:
            raise SyncError("; ".join(problems)) from errors.gravest(failures)
        return Done(_PERIOD)

    async def _is_tracked(self) -> bool:
        """Tell whether API servers have tracked the use of tokens for long enough."""
        try:
            tracking = await self._client.get(CONFIG_MAPS, "kube-system", TRACKING)
        except errors.NotFound:
            self._logger.info("The use of legacy tokens is not tracked")
            return False
        since = parse_day((tracking.data or {}).get("since", ""))
        if since is None:
            self._logger.error("Config map has no valid day in since", name=TRACKING)
            return False
        return tracked_long_enough(since, self._clock.now(), self._period)

    def _is_generated(self, secret: Secret) -> bool:
        name = meta.annotations_of(secret.metadata).get(ACCOUNT_NAME, "")
        account = self._accounts.get(secret.metadata.namespace, name)
        return is_generated_for(secret, account)

    async def _clean(
        self, secret: Secret, limits: Limits, used_names: dict[str, Collection[str]]
    ) -> None:
        decision = decide_unused(secret, limits)
        if decision is Decision.KEEP:
            return
        namespace = secret.metadata.namespace
        if namespace not in used_names:
            used_names[namespace] = await self._used_in(namespace)
        if secret.metadata.name in used_names[namespace]:
            return
        if decision is Decision.INVALIDATE:
            await self._invalidate(secret)
        else:
            await self._delete(secret)

    async def _used_in(self, namespace: str) -> Collection[str]:
        """Return the names of the secrets that pods use, as the API server has them.

        No cache has these pods: the controller needs them at most once a day, and
        100,000 pods would need much memory.
        """
        return {
            name
            async for page in self._reader.list_all(SECRET_PODS, namespace)
            for pod in page.items
            for name in secret_names(pod)
        }

    async def _invalidate(self, secret: Secret) -> None:
        today = self._clock.now().astimezone(UTC).date().isoformat()
        self._logger.info(
            "Mark the auto-generated service account token as invalid",
            invalidSince=today,
            secret=meta.key_of(secret),
        )
        patch = {"metadata": {"labels": {INVALID_SINCE: today}}}
        await self._client.patch_exactly(
            meta.metadata_of(SECRETS), secret, patch, PatchType.MERGE, same_version=True
        )

    async def _delete(self, secret: Secret) -> None:
        metadata = secret.metadata
        labels = metadata.labels or {}
        self._logger.info(
            "Delete auto-generated service account token",
            secret=meta.key_of(secret),
            creationTime=metadata.creation_timestamp,
            lastUsed=labels.get(LAST_USED, ""),
            invalidSince=labels.get(INVALID_SINCE, ""),
        )
        await self._client.delete_exactly(SECRETS, secret, same_version=True)
