"""Tickets are filled in, checked, and converted from and to their first version."""

from collections.abc import Sequence
from typing import Any

import pytest
from e9_webhooks import (
    CONTROLLER,
    DEFINITION,
    OLD_TICKETS,
    TICKETS,
    OldTicket,
    OldTicketSpec,
    Ticket,
    TicketSpec,
)

from controller_manager.sdk import (
    APIError,
    Descriptor,
    ObjectMeta,
)
from controller_manager.testing import VirtualManager


@pytest.fixture
def own_controllers() -> Sequence[Descriptor]:
    return (CONTROLLER,)


async def started(manager: VirtualManager) -> VirtualManager:
    """Return the manager once it serves its webhooks."""
    await manager.define(DEFINITION)
    await manager.start()
    return manager


def ticket(name: str, **spec: Any) -> Ticket:
    metadata = ObjectMeta(namespace="default", name=name)
    return Ticket(metadata=metadata, spec=TicketSpec(**spec))


async def test_a_ticket_gets_a_priority(manager: VirtualManager) -> None:
    client = (await started(manager)).client
    made = await client.create(TICKETS, ticket("a", title="Mend the roof"))
    assert made.spec.priority == "high"
    given = ticket("b", title="Paint the door", priority="low")
    assert (await client.create(TICKETS, given)).spec == given.spec


async def test_a_ticket_that_nobody_could_work_on_is_refused(
    manager: VirtualManager,
) -> None:
    client = (await started(manager)).client
    with pytest.raises(APIError) as refused:
        await client.create(TICKETS, ticket("a"))
    text = 'admission webhook "check-ticket.tickets.example.com" denied the request: '
    assert str(refused.value).endswith(f"{text}spec.title: a ticket needs a title")
    assert refused.value.code == 422
    await client.create(TICKETS, ticket("a", title="Mend the roof"))
    with pytest.raises(APIError, match="a has the same title"):
        await client.create(TICKETS, ticket("b", title="Mend the roof"))


async def test_an_urgent_ticket_stays(manager: VirtualManager) -> None:
    client = (await started(manager)).client
    await client.create(TICKETS, ticket("a", title="Mend the roof"))
    with pytest.raises(APIError, match="lower the priority before"):
        await client.delete(TICKETS, "default", "a")
    await client.patch(TICKETS, "default", "a", {"spec": {"priority": "low"}})
    await client.delete(TICKETS, "default", "a")


async def test_clients_of_the_first_version_still_work(manager: VirtualManager) -> None:
    client = (await started(manager)).client
    metadata = ObjectMeta(namespace="default", name="a", labels={"team": "x"})
    old = OldTicket(
        metadata=metadata,
        spec=OldTicketSpec(title="Mend the roof", urgency=9, assignee="ann"),
    )
    await client.create(OLD_TICKETS, old)
    new = await client.get(TICKETS, "default", "a")
    wanted = TicketSpec(title="Mend the roof", priority="high", assignees=("ann",))
    assert new.spec == wanted
    assert new.metadata.labels == {"team": "x"}
    (listed,) = (await client.list_page(OLD_TICKETS)).items
    assert listed.spec == OldTicketSpec(
        title="Mend the roof", urgency=5, assignee="ann"
    )
    two = ticket("b", title="Paint the door", assignees=("ann", "bob"))
    await client.create(TICKETS, two)
    with pytest.raises(APIError) as failed:
        await client.list_page(OLD_TICKETS)
    problem = "2 people work on it, and v1beta1 has one assignee"
    where = "Ticket default/b: example.com/v1 to example.com/v1beta1"
    assert f"{where}: {problem}" in str(failed.value)
