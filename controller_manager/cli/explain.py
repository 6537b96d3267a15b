"""The subcommand that says why an object is not as its spec wants it."""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from controller_manager.client.identity import credentials
from controller_manager.client.identity.kubeconfig import read_kubeconfig
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.clock import Clock, SystemClock
from controller_manager.explain.cause import Explanation, State, worst
from controller_manager.explain.explainer import (
    explain_all,
    explain_everywhere,
    explain_target,
)
from controller_manager.explain.following import Look, follow
from controller_manager.explain.report import as_json, as_text, printable
from controller_manager.explain.target import (
    Target,
    TargetError,
    known_kind,
    parse_words,
    resource_of,
)
from controller_manager.explain.view import Missing, Unread, View
from controller_manager.observability.logs import library_logs, silent_logger
from controller_manager.options.durations import parse_duration
from controller_manager.version import COMMAND_USER_AGENT

from .daemon import run
from .failure import Failure

_EXIT_CODES: Final = {State.HEALTHY: 0, State.PROGRESSING: 3, State.STUCK: 4}
_IN_FLIGHT: Final = 8
_WIDEST: Final = 100
_HOME: Final = Path("~/.kube/config")


class _Question(Struct, frozen=True):
    """The arguments of the command; without a target all kinds are explained.

    `everywhere` stands for all namespaces.
    """

    targets: Sequence[Target]
    namespace: str
    everywhere: bool
    output: str
    watch: bool
    seconds: float
    request_seconds: float
    watch_seconds: float


def _seconds_option(
    name: str, default: str, text: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        name, default=default, show_default=True, metavar="DURATION", help=text
    )


@click.command("explain")
@click.argument("target", nargs=-1, metavar="KIND[/NAME]...")
@click.option("-n", "--namespace", default="", help="The namespace of the object.")
@click.option(
    "--all", "everything", is_flag=True, help="Explain all objects of the namespace."
)
@click.option(
    "-A",
    "--all-namespaces",
    "everywhere",
    is_flag=True,
    help="Explain the objects of all namespaces, and the nodes.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the answer.",
)
@click.option("-w", "--watch", is_flag=True, help="Follow until nothing is wrong.")
@_seconds_option("--watch-timeout", "0s", "The longest time to follow; 0s is for ever.")
@_seconds_option("--timeout", "2m", "The time that an answer may take; 0s is for ever.")
@_seconds_option("--request-timeout", "10s", "The time that each request may take.")
@click.option(
    "--kubeconfig",
    default="",
    type=click.Path(),
    help="The kubeconfig; by default $KUBECONFIG, the service account of a pod, or "
    "~/.kube/config.",
)
@click.option("--context", default="", help="The context of the kubeconfig.")
@click.option("--master", default="", help="The URL of the API server.")
@click.pass_context
def explain_command(  # noqa: PLR0913 - one for each flag
    ctx: click.Context,
    *,
    target: tuple[str, ...],
    namespace: str,
    output: str,
    watch_timeout: str,
    timeout: str,
    request_timeout: str,
    kubeconfig: str,
    context: str,
    master: str,
    everything: bool,
    everywhere: bool,
    watch: bool,
) -> None:
    """Say why an object is stuck, and what resolves it; it only reads.

    Objects are named as for kubectl: deploy/web, deploy web, quota/small cm/x,
    statefulsets.apps/db. Without a name, all objects of a kind that are not healthy are
    explained: deploy,sts. The exit code is 0 if the object is healthy, 3 if it is in
    progress, 4 if it is stuck, and 1 if it cannot be read, or if the time was over
    before all was read.
    """
    paths = _kubeconfig(kubeconfig, master)
    question = _Question(
        _targets(target, everything=everything, everywhere=everywhere),
        namespace or _namespace(paths, context),
        everywhere,
        output,
        watch,
        _seconds("--timeout", timeout, least=0),
        _seconds("--request-timeout", request_timeout, least=0.001),
        _seconds("--watch-timeout", watch_timeout, least=0),
    )
    clock = SystemClock()
    connect = partial(_credentials, paths, master, context, clock)
    ctx.exit(_EXIT_CODES[run(_answer(question, connect, clock))])


def _targets(
    words: tuple[str, ...], *, everything: bool, everywhere: bool
) -> Sequence[Target]:
    """Return the targets, none for all objects; raises Failure."""
    if not words:
        if everything or everywhere:
            return ()
        message = "explain: name an object, for example deploy/web, or give --all"
        raise Failure([message])
    try:
        found = parse_words(words)
    except TargetError as error:
        raise _failure(error) from None
    if everything and any(each.name for each in found):
        raise Failure(["explain: give KIND/NAME or --all, not both"])
    if everywhere and any(each.name for each in found):
        message = "a resource cannot be retrieved by name across all namespaces"
        raise Failure([f"explain: {message}; give -n, or only the kind"])
    return found


def _seconds(flag: str, text: str, least: float) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as problem:
        raise Failure([f"{flag}: invalid argument: {problem}"]) from None
    if seconds < least:
        raise Failure([f"{flag}: {text} is too short"])
    return seconds


def _kubeconfig(given: str, master: str) -> str:
    """Return the paths of the kubeconfig as kubectl finds it, empty for none."""
    if given or master:
        return given
    if paths := os.environ.get("KUBECONFIG"):
        return paths
    home = _HOME.expanduser()
    return str(home) if not credentials.is_in_cluster() and home.exists() else ""


def _namespace(paths: str, context: str) -> str:
    """Return the namespace of the context, as kubectl does."""
    if not paths:
        return "default"
    try:
        chosen = read_kubeconfig(paths, context or None)
    except Exception:  # noqa: BLE001 - the credentials report it
        return "default"
    for each in chosen.config.get("contexts") or ():
        if each.get("name") == chosen.name:
            return str((each.get("context") or {}).get("namespace") or "default")
    return "default"


def _credentials(
    paths: str, master: str, context: str, clock: Clock
) -> credentials.Credentials:
    """Return the credentials; raises ConfigError."""
    if paths:
        return credentials.from_kubeconfig(paths, master, clock, context or None)
    return credentials.load_credentials("", master, clock)


async def _answer(
    question: _Question, connect: "partial[credentials.Credentials]", clock: Clock
) -> State:
    """Print the answer, each time that it changes; return the last state."""
    from controller_manager.client.wire.http import (  # noqa: PLC0415 - aiohttp
        HTTPTransport,
    )

    async with AsyncExitStack() as stack:
        stack.enter_context(library_logs(silent_logger()))
        transport = HTTPTransport(connect(), COMMAND_USER_AGENT)
        stack.push_async_callback(transport.close)
        server_clock = ServerClock(clock)
        client = Client(
            transport, clock, server_clock=server_clock, in_flight=_IN_FLIGHT
        )
        look = partial(_look, client, server_clock, question)
        try:
            if question.watch:
                return await _watch(question, look, server_clock)
            found = await look()
            return _checked(_show(question, found, server_clock), found)
        except (TargetError, Unread) as error:
            raise _failure(error) from None


def _failure(error: Exception) -> Failure:
    """Return the failure that one line tells; it may have the words of a server."""
    return Failure([printable(f"explain: {error}")])


def _checked(state: State, found: Sequence[Explanation]) -> State:
    """Return the state of an answer; raises Failure if it may be a worse one.

    Nothing is worse than stuck, so that answer holds although others were left out.
    """
    if not any(each.timed_out for each in found):
        return state
    message = "explain: the time was over before all was read; give a longer --timeout"
    if state is not State.STUCK:
        raise Failure([message])
    click.echo(message, err=True)
    return state


def _say_failed(error: Unread) -> None:
    """Say that a look has failed, and that the next ones follow."""
    click.echo(printable(f"explain: {error}; looking again"), err=True)


async def _watch(question: _Question, look: Look, clock: ServerClock) -> State:
    """Print each change of the answer; return the last state.

    An object that is gone needs nothing more.
    """
    state: State | None = None
    found: Sequence[Explanation] = ()
    try:
        following = follow(look, question.watch_seconds, _say_failed)
        async with aclosing(following) as changes:
            async for found in changes:
                state = _show(question, found, clock)
    except Missing:
        if state is None:
            raise
        click.echo("The object is gone.", err=question.output == "json")
        return State.HEALTHY
    return _checked(state or State.HEALTHY, found)


async def _look(
    client: Client, clock: ServerClock, question: _Question
) -> Sequence[Explanation]:
    """Return the explanations of the present objects; raises TargetError, Unread."""
    view = View(client, clock, question.request_seconds, seconds=question.seconds)
    targets, namespace = question.targets, question.namespace
    if any(each.name for each in targets):
        return [
            await explain_target(view.beside(), each, namespace) for each in targets
        ]
    resources = [await resource_of(view, each.kind) for each in targets]
    if question.everywhere:
        return await explain_everywhere(view, resources)
    return await explain_all(view, namespace, resources)


def _show(
    question: _Question, found: Sequence[Explanation], clock: ServerClock
) -> State:
    if question.output == "json":
        click.echo(as_json(found), nl=False)
    elif found:
        width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
        click.echo(as_text(found, clock.now(), width), nl=question.watch)
    else:
        click.echo(f"Nothing is wrong {_place(question)}.")
    return worst(each.state for each in found)


def _place(question: _Question) -> str:
    """Return the words for the objects that were looked at."""
    known = [known_kind(each.kind) for each in question.targets]
    names = ", ".join(
        resource.group_resource if resource is not None else each.kind
        for resource, each in zip(known, question.targets, strict=True)
    )
    if known and all(each is not None and not each.namespaced for each in known):
        place = "of the cluster"
    elif question.everywhere:
        place = "in all namespaces"
    else:
        place = f"in the namespace {question.namespace}"
    return f"with {names} {place}" if names else place
