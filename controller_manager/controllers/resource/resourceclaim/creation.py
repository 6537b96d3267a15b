"""Creates claims from templates, and writes their names into status (handleClaim)."""

from collections.abc import Iterable
from typing import Final

import msgspec

from controller_manager.api.core.v1 import PodResourceClaim
from controller_manager.api.dynamicresources import v1
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import key_of
from controller_manager.client.events.recorder import WARNING
from controller_manager.client.rest import errors
from controller_manager.control.expectations import Takeover, live
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

from .consumers import CLAIMS_BY_OWNER, Consumer, owner_uid, pod_claim_name
from .metrics import ResourceClaimMetrics, has_admin_access

_LONGEST_BASE: Final = 57
"""The API server appends 5 random characters, and a label holds 63 with a hyphen."""


def generate_name(consumer: str, entry: str) -> str:
    """Return the prefix of a claim's name; both names are cut if it is too long.

    Each keeps a share in proportion to its length, so that users recognize both. No
    hyphen follows a dot, which names must not have.
    """
    whole = f"{consumer}-{entry}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    consumer = consumer[: len(consumer) * _LONGEST_BASE // len(whole)].rstrip(".")
    return f"{consumer}-{entry[: len(entry) * _LONGEST_BASE // len(whole)]}"


def claim_body(
    consumer: Consumer, entry: PodResourceClaim, template: v1.ResourceClaimTemplate
) -> bytes:
    """Return the JSON of the claim from a template for an entry of a consumer."""
    owner = {
        "apiVersion": consumer.resource.api_version,
        "kind": consumer.resource.kind,
        "name": consumer.name,
        "uid": consumer.uid,
        "controller": True,
    }
    metadata: JSON = {
        "generateName": generate_name(consumer.name, entry.name),
        "annotations": {
            **(template.spec.metadata.annotations or {}),
            v1.POD_CLAIM_NAME: entry.name,
        },
        "ownerReferences": [owner],
    }
    if template.spec.metadata.labels:
        metadata["labels"] = template.spec.metadata.labels
    return msgspec.json.encode(
        {
            "apiVersion": v1.RESOURCE_CLAIMS.api_version,
            "kind": v1.RESOURCE_CLAIMS.kind,
            "metadata": metadata,
            "spec": template.spec.spec,
        }
    )


def statuses_of(consumer: Consumer, names: dict[str, str | None]) -> list[JSON]:
    """Return the claims that were created for a consumer, as entries of its status.

    Upstream orders them at random, and leaves out those that the status has already.
    """
    status_names = {**consumer.status_names, **names}
    return [
        {"name": each.name}
        if (name := status_names[each.name]) is None
        else {"name": each.name, "resourceClaimName": name}
        for each in consumer.wanted
        if each.resource_claim_name is None and each.name in status_names
    ]


FIELD_MANAGER: Final = "ResourceClaimController"


class ClaimNotCreated(SyncError):
    """A claim cannot be created yet; the message is that of the event."""


_ERRORS: Final = (
    *(ClaimNotCreated, errors.APIError),
    *(errors.ProtocolError, errors.TransportError),
)


class ClaimCreator:
    """Creates the claims of pods and of groups of pods, each claim once."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._logger = context.logger
        self._recorder = context.recorder
        self._claims = context.lister(v1.RESOURCE_CLAIMS, CLAIMS_BY_OWNER)
        self._templates = context.lister(v1.RESOURCE_CLAIM_TEMPLATES)
        self._metrics = context.metrics.of(ResourceClaimMetrics)
        election = context.config.generic.leader_election
        self._takeover = Takeover(context.server_clock, elected=election.leader_elect)
        self._maybe_created: set[str] = set()
        """The consumers, by uid, of which a response to a creation was lost."""

    def start_leading(self) -> None:
        """Begin to lead: a former leader may have created claims not cached yet."""
        self._takeover.start_leading()

    def forget(self, uid: str) -> None:
        """Drop the state of a consumer that is gone."""
        self._maybe_created.discard(uid)

    def must_list(self, consumer: Consumer) -> bool:
        """Tell whether the API server may have claims that the cache lacks.

        That is possible after a lost response, and after another process has led.
        """
        may_exist = consumer.uid in self._maybe_created
        return may_exist or self._takeover.must_recheck(consumer)

    def claim_name_for(self, consumer: Consumer, entry: PodResourceClaim) -> str | None:
        """Return the name of the oldest claim that was created for an entry."""
        owned = self._claims.by_index(CLAIMS_BY_OWNER, consumer.uid)
        return _oldest(owned, consumer, entry)

    async def make(self, consumer: Consumer, entry: PodResourceClaim) -> str:
        """Return the name of the claim for an entry; create the claim if it is missing.

        A claim whose name was not written because the process died is found by its
        owner. An event precedes the error, ClaimNotCreated or one of the client.
        """
        try:
            return await self._make(consumer, entry)
        except _ERRORS as error:
            is_ours = isinstance(error, ClaimNotCreated)
            text = str(error) if is_ours else f"create ResourceClaim : {error}"
            message = f"{consumer.resource.kind}ResourceClaim {entry.name}: {text}"
            self._recorder.event(
                consumer.resource,
                consumer,
                WARNING,
                "FailedResourceClaimCreation",
                message,
            )
            raise

    async def _make(self, consumer: Consumer, entry: PodResourceClaim) -> str:
        known_name = consumer.name_of(entry)
        if known_name and await self._exists(consumer, known_name):
            return known_name
        if (name := self.claim_name_for(consumer, entry)) is not None:
            return name
        if (name := await self._find_uncached(consumer, entry)) is not None:
            return name
        claim = await self._create(consumer, entry)
        self._logger.v(4).info(
            "Created ResourceClaim", claim=key_of(claim), consumer=consumer.name
        )
        return claim.metadata.name

    async def _exists(self, consumer: Consumer, name: str) -> bool:
        """Tell whether a consumer has the claim; a cache that lacks it may be old."""
        claim = self._claims.get(consumer.namespace, name)
        if claim is None:
            where = (v1.RESOURCE_CLAIMS, consumer.namespace, name)
            claim = await live(self._client, *where)
        return claim is not None and owner_uid(claim) == consumer.uid

    async def _find_uncached(
        self, consumer: Consumer, entry: PodResourceClaim
    ) -> str | None:
        """Return the name of a claim that was created and that the cache may lack.

        All claims of the namespace are listed: a selector cannot find an owner.
        """
        if not self.must_list(consumer):
            return None
        owned: list[v1.ResourceClaim] = []
        async for page in self._client.list_all(v1.RESOURCE_CLAIMS, consumer.namespace):
            owned += [each for each in page.items if owner_uid(each) == consumer.uid]
        self._maybe_created.discard(consumer.uid)
        return _oldest(owned, consumer, entry)

    async def _create(
        self, consumer: Consumer, entry: PodResourceClaim
    ) -> v1.ResourceClaim:
        name = entry.resource_claim_template_name
        if name is None:
            msg = (
                "checking for claim before creating it: pod "
                f'"{consumer.namespace}/{consumer.name}", spec.resourceClaim '
                f'"{entry.name}": none of the supported fields are set'
            )
            raise ClaimNotCreated(msg)
        template = self._templates.get(consumer.namespace, name)
        if template is None:
            msg = (
                f'resource claim template "{name}": '
                f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            )
            raise ClaimNotCreated(msg)
        body = claim_body(consumer, entry, template)
        wanted = msgspec.json.decode(template.spec.spec, type=v1.ResourceClaimSpec)
        admin_access = str(has_admin_access(v1.ResourceClaim(spec=wanted))).lower()
        try:
            claim = await self._client.create_json(
                v1.RESOURCE_CLAIMS, consumer.namespace, body
            )
        except (errors.APIError, errors.ProtocolError, errors.TransportError) as error:
            if errors.may_be_applied(error):
                self._maybe_created.add(consumer.uid)
            self._metrics.created(failed=True, admin_access=admin_access)
            raise
        self._metrics.created(failed=False, admin_access=admin_access)
        return claim

    async def write_names(
        self, consumer: Consumer, names: dict[str, str | None]
    ) -> None:
        """Write the names of new claims into the status of this consumer."""
        metadata = {"namespace": consumer.namespace, "name": consumer.name}
        config = {
            "metadata": {**metadata, "uid": consumer.uid},
            "status": {"resourceClaimStatuses": statuses_of(consumer, names)},
        }
        await self._client.apply(consumer.resource, config, FIELD_MANAGER, "status")


def _oldest(
    owned: Iterable[v1.ResourceClaim], consumer: Consumer, entry: PodResourceClaim
) -> str | None:
    found = [
        each
        for each in owned
        if owner_uid(each) == consumer.uid and pod_claim_name(each) == entry.name
    ]
    ages = (
        (each.metadata.creation_timestamp or "", each.metadata.name) for each in found
    )
    return min(ages, default=("", None))[1]
