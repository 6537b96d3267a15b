"""Tests with faults, which find a bug that was planted.

    pytest examples/e8_faults.py

Each namespace with a label gets a ticket, a config map, and an annotation that names
it. An answer of the API server may be lost although it has created the ticket; the
operator must then not create another one. With `--planted-bug` it does: the name of a
ticket is made up anew at each try. No test without faults can tell.

The tests run the operator on virtual time. Two of them are expected to fail, and to
fail in no other way: they find the bug.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from controller_manager.sdk import (
    DONE,
    AlreadyExists,
    ControllerContext,
    ControllerOptions,
    Descriptor,
    For,
    ObjectMeta,
    Outcome,
    Reconciler,
    allow,
    core_v1,
    labels_of,
    option,
    run,
)
from controller_manager.testing import Fault, Faults, VirtualManager

WANTED = "example.com/wants-ticket"
TICKET = "example.com/ticket"

# The controller


class TicketOptions(ControllerOptions):
    """The options of the controller."""

    planted_bug: bool = option("planted-bug", "bool", "false", "Make up names.")


class Tickets(Reconciler[core_v1.Namespace]):
    """Gives each namespace that wants one a ticket."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context, and the options from it."""
        super().__init__(context)
        self._options = context.config.of(TicketOptions)

    watches = (For(core_v1.NAMESPACES, when=lambda each: WANTED in labels_of(each)),)

    async def reconcile(self, namespace: core_v1.Namespace) -> Outcome:
        """Create the ticket, then note its name."""
        if TICKET in (namespace.metadata.annotations or {}):
            return DONE
        uid, is_planted = namespace.metadata.uid, self._options.planted_bug
        metadata = ObjectMeta(
            namespace=namespace.metadata.name,
            name="" if is_planted else f"ticket-{uid}",
            generate_name="ticket-",  # counts only without a name
            labels={TICKET: "true"},
        )
        ticket = core_v1.ConfigMap(metadata=metadata)
        with suppress(AlreadyExists):
            ticket = await self.client.create(core_v1.CONFIG_MAPS, ticket)
        patch = {"metadata": {"annotations": {TICKET: ticket.metadata.name}}}
        await self.client.patch_exactly(core_v1.NAMESPACES, namespace, patch)
        return DONE


CONTROLLER = Descriptor(
    name="tickets",
    load=Tickets,
    options=TicketOptions,
    permissions=(
        allow(core_v1.CONFIG_MAPS, "create"),
        allow(core_v1.NAMESPACES, "patch"),
    ),
)

# Its tests


async def tickets(manager: VirtualManager) -> tuple[str | None, list[str]]:
    """Return the name in the annotation, and the names of the tickets there are."""
    client = manager.client
    namespace = await client.get(core_v1.NAMESPACES, "", "default")
    page = await client.list_page(core_v1.CONFIG_MAPS, "default")
    made = [each.metadata.name for each in page.items if TICKET in labels_of(each)]
    return (namespace.metadata.annotations or {}).get(TICKET), made


async def ask(manager: VirtualManager) -> None:
    """Ask for a ticket."""
    labels = {"metadata": {"labels": {WANTED: "true"}}}
    await manager.client.patch(core_v1.NAMESPACES, "", "default", labels)


def refused(faults: Faults) -> Fault:
    """Refuse twice to create a config map."""
    return faults.refuse(503, times=2, verbs="create", resource="configmaps")


def lost_request(faults: Faults) -> Fault:
    """Lose a request before it is carried out."""
    return faults.cut(times=1, verbs="create", resource="configmaps")


def lost_answer(faults: Faults) -> Fault:
    """Lose the answer to a request that was carried out."""
    chosen = {"verbs": "create", "resource": "configmaps"}
    return faults.cut(carried_out=True, times=1, **chosen)


def lost_note(faults: Faults) -> Fault:
    """Lose the answer to the second write."""
    chosen = {"verbs": "patch", "resource": "namespaces"}
    return faults.cut(carried_out=True, times=1, **chosen)


PLANTED = "--planted-bug"
FINDS_BUG = pytest.mark.xfail(raises=AssertionError, strict=True, reason="planted")


@pytest.mark.own_controllers(CONTROLLER)
@pytest.mark.parametrize(
    ("fault", "flags"),
    [
        (refused, ()),
        (lost_request, ()),
        (lost_answer, ()),
        (lost_note, ()),
        (refused, (PLANTED,)),
        pytest.param(lost_answer, (PLANTED,), marks=FINDS_BUG),
    ],
)
async def test_a_namespace_gets_one_ticket(
    manager: VirtualManager, fault: Callable[[Faults], Fault], flags: tuple[str, ...]
) -> None:
    """Whatever happens to the requests: a minute later all is as it should be."""
    await manager.start(*flags)
    with fault(manager.faults) as happened:
        await ask(manager)
        await manager.settle(60)
    if not happened.count:
        pytest.fail("the test proves nothing: the fault has met no request")
    name, made = await tickets(manager)
    assert made == [name]


@pytest.mark.own_controllers(CONTROLLER)
@pytest.mark.parametrize("flags", [(), pytest.param((PLANTED,), marks=FINDS_BUG)])
async def test_a_crash_between_the_writes_makes_no_second_ticket(
    manager: VirtualManager, flags: tuple[str, ...]
) -> None:
    """The second write takes so long that the operator crashes before."""
    await manager.start(*flags)
    with manager.faults.latency(10, verbs="patch", resource="namespaces"):
        await ask(manager)
        await asyncio.sleep(1)
        await manager.crash()
    await manager.start(*flags)
    await manager.settle()
    name, made = await tickets(manager)
    assert made == [name]


if __name__ == "__main__":
    run(CONTROLLER)
