"""Tests with faults, which find a bug that was planted.

    pytest examples/e8_faults.py

Each namespace with a label gets a ticket, a config map, and an annotation that names
it. An answer of the API server may be lost although it has created the ticket; the
operator must then not create another one. With `--planted-bug` it does: the name of a
ticket is made up anew at each try. No test without faults can tell.

The tests run the operator as a process on the cluster of the pytest plugin. The last of
them is expected to fail, and to fail in no other way: it is the one that finds the bug.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
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
from controller_manager.testing import DevelopmentCluster, Fault, Faults

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


@pytest.fixture
def start(cluster: DevelopmentCluster) -> Iterator[Callable[..., None]]:
    """Return a function that starts the operator on the cluster; end it afterwards."""
    # KUBECONFIG names the cluster.
    assert cluster.kubeconfig.exists()
    processes: list[subprocess.Popen[bytes]] = []

    def start(*flags: str) -> None:
        command = [sys.executable, __file__, "--leader-elect=false", "--secure-port=0"]
        processes.append(subprocess.Popen([*command, *flags]))

    yield start
    for each in processes:
        each.terminate()
        each.wait()


async def tickets(cluster: DevelopmentCluster, namespace: str) -> tuple[str, list[str]]:
    """Ask for a ticket; return the name in the annotation, and the tickets there are.

    Raises TimeoutError if there is no annotation after half a minute.
    """
    async with cluster.client() as client, asyncio.timeout(30):
        labels = {"metadata": {"labels": {WANTED: "true"}}}
        await client.patch(core_v1.NAMESPACES, "", namespace, labels)
        name = None
        while name is None:
            await asyncio.sleep(0.05)
            found = await client.get(core_v1.NAMESPACES, "", namespace)
            name = (found.metadata.annotations or {}).get(TICKET)
        page = await client.list_page(core_v1.CONFIG_MAPS, namespace)
        made = [each.metadata.name for each in page.items if TICKET in labels_of(each)]
        return name, made


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
    chosen = {"verbs": "patch", "resource": "namespaces", "user_agent": "tickets"}
    return faults.cut(carried_out=True, times=1, **chosen)


FINDS_BUG = pytest.mark.xfail(raises=AssertionError, strict=True, reason="planted")


@pytest.mark.parametrize(
    ("fault", "flags"),
    [
        (refused, ()),
        (lost_request, ()),
        (lost_answer, ()),
        (lost_note, ()),
        (refused, ("--planted-bug",)),
        pytest.param(lost_answer, ("--planted-bug",), marks=FINDS_BUG),
    ],
)
async def test_a_namespace_gets_one_ticket(
    cluster: DevelopmentCluster,
    namespace: str,
    faults: Faults,
    start: Callable[..., None],
    fault: Callable[[Faults], Fault],
    flags: tuple[str, ...],
) -> None:
    """Whatever happens to the requests."""
    with fault(faults) as happened:
        start(*flags)
        name, made = await tickets(cluster, namespace)
    if not happened.count:
        pytest.fail("the test proves nothing: the fault has met no request")
    assert made == [name]


if __name__ == "__main__":
    run(CONTROLLER)
