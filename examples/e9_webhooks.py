"""Webhooks: objects are filled in, checked, and converted from an old version.

    python examples/e9_webhooks.py crds | kubectl apply -f -
    python examples/e9_webhooks.py manifests --image=IMAGE | kubectl apply -f -

A ticket has a priority. The first version had it as a number, the second one has a
word. The function that fills in a priority asks who writes; another one refuses tickets
that nobody could work on. In the cluster every replica serves them. On your machine,
with an API server that can reach it:

    python examples/e9_webhooks.py --webhook-url=https://127.0.0.1:9443
"""

from typing import Literal

from msgspec.structs import replace

from controller_manager.sdk import (
    DONE,
    AdmissionRequest,
    APIStruct,
    CompleteObject,
    Definition,
    Descriptor,
    FieldError,
    For,
    Mutates,
    Outcome,
    Reconciler,
    Refused,
    Resource,
    Spoke,
    Validates,
    allow,
    run,
)

Priority = Literal["", "low", "high"]
URGENT = 5


class TicketSpec(APIStruct, frozen=True):
    """What is to be done, and how soon."""

    title: str = ""
    priority: Priority = ""
    assignees: tuple[str, ...] | None = None


class Ticket(CompleteObject, frozen=True):
    """A ticket."""

    spec: TicketSpec = TicketSpec()


class OldTicketSpec(APIStruct, frozen=True):
    """What is to be done; 9 is the most urgent."""

    title: str = ""
    urgency: int = 0
    assignee: str = ""


class OldTicket(CompleteObject, frozen=True):
    """A ticket of the first version."""

    spec: OldTicketSpec = OldTicketSpec()


TICKETS: Resource[Ticket] = Resource("example.com", "v1", "tickets", "Ticket", Ticket)
OLD_TICKETS: Resource[OldTicket] = Resource(
    "example.com", "v1beta1", "tickets", "Ticket", OldTicket
)


# Conversion: from and to the version in which tickets are stored.


def to_hub(old: OldTicket) -> Ticket:
    """Return the ticket as it is stored."""
    urgency = old.spec.urgency
    spec = TicketSpec(
        title=old.spec.title,
        priority="" if not urgency else "high" if urgency >= URGENT else "low",
        assignees=(old.spec.assignee,) if old.spec.assignee else None,
    )
    return Ticket(spec=spec)


def from_hub(ticket: Ticket) -> OldTicket:
    """Return the ticket as clients of the first version read it."""
    assignees = ticket.spec.assignees or ()
    if len(assignees) > 1:
        msg = f"{len(assignees)} people work on it, and v1beta1 has one assignee"
        raise ValueError(msg)
    urgency = {"": 0, "low": 1, "high": URGENT}[ticket.spec.priority]
    spec = OldTicketSpec(
        title=ticket.spec.title, urgency=urgency, assignee="".join(assignees)
    )
    return OldTicket(spec=spec)


DEFINITION = Definition(TICKETS, versions=(Spoke(OLD_TICKETS, to_hub, from_hub),))


# Admission: before a ticket is stored.


def fill_in_priority(request: AdmissionRequest[Ticket]) -> Ticket:
    """Give a ticket a priority: that of the administrators is high."""
    ticket = request.object
    if ticket.spec.priority:
        return ticket
    is_admin = "system:masters" in (request.user.groups or ())
    spec = replace(ticket.spec, priority="high" if is_admin else "low")
    return replace(ticket, spec=spec)


async def check_ticket(request: AdmissionRequest[Ticket]) -> None:
    """Refuse a ticket without a title, or a second one with the same."""
    spec = request.object.spec
    if not spec.title:
        raise Refused(FieldError("spec.title", "a ticket needs a title"))
    namespace = request.object.metadata.namespace
    if request.operation == "CREATE":
        page = await request.client.list_page(TICKETS, namespace)
        for other in page.items:
            if other.spec.title == spec.title:
                msg = f"{other.metadata.name} has the same title"
                raise Refused(msg)
    if not spec.assignees:
        request.warnings.append("nobody is assigned to this ticket")


def keep_urgent(request: AdmissionRequest[Ticket]) -> None:
    """Refuse to delete a ticket of high priority."""
    if request.object.spec.priority == "high":
        msg = "lower the priority before the ticket is deleted"
        raise Refused(msg)


class TicketReconciler(Reconciler[Ticket]):
    """Logs what is open; a real one would do something."""

    watches = (For(TICKETS),)

    async def reconcile(self, ticket: Ticket) -> Outcome:
        """Tell who works on the ticket."""
        self.logger.info("Open", title=ticket.spec.title, who=ticket.spec.assignees)
        return DONE


CONTROLLER = Descriptor(
    name="ticket-operator",
    load=TicketReconciler,
    permissions=(allow(TICKETS, "list"),),  # of check_ticket
    definitions=(DEFINITION,),
    webhooks=(
        Mutates(TICKETS, fill_in_priority),
        Validates(TICKETS, check_ticket),
        Validates(TICKETS, keep_urgent, on=("DELETE",)),
    ),
)

if __name__ == "__main__":
    run(CONTROLLER)
