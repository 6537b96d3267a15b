"""``python -m tests.conformance``: play one recording, and show what differs."""

import sys
from collections.abc import Iterable

import click

from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.observability.logs import make_logger, silent_logger
from tests.clusters import TOKEN
from tests.conformance import comparison, writes
from tests.conformance.aliases import Aliases
from tests.conformance.managers import SwitchedManager
from tests.conformance.recordings import ALL_RECORDINGS, Recording
from tests.conformance.whole import WholeForm
from tests.world.runner import run


@click.command()
@click.argument("name", type=click.Choice([*ALL_RECORDINGS]), metavar="NAME")
@click.option(
    "--writes", "show_writes", is_flag=True, help="Show ours beside upstream's."
)
@click.option("--log", "verbosity", type=int, help="Log what the manager does, as -v.")
def main(name: str, *, show_writes: bool, verbosity: int | None) -> None:
    """Play a recording in memory, also if controllers of its family are absent.

    Shows the differences at the checkpoints, the recorded value first. Exits with 1 if
    there are any.
    """
    recording = ALL_RECORDINGS[name]
    failure, differences, ours = run(_play(recording, verbosity))
    _show("Checkpoints (recorded | ours)", differences)
    if failure:
        click.secho(failure, fg="red")
    if show_writes:
        _show(
            "Writes (- only upstream, + only ours)",
            comparison.of_writes(ours, recording.writes),
        )
        unknown = writes.unknown_kinds(ours, recording.writes)
        _show("Kinds of write that upstream does not send", unknown)
    click.echo(f"{len(ours)} writes, {len(recording.writes)} of upstream")
    sys.exit(1 if failure or differences else 0)


def _show(title: str, lines: Iterable[str]) -> None:
    click.secho(title, bold=True)
    found = False
    for line in lines:
        found = True
        click.echo(f"  {line}")
    if not found:
        click.echo("  none")


async def _play(
    recording: Recording, verbosity: int | None
) -> tuple[str, list[str], list[dict[str, object]]]:
    """Return why the scenario failed, the differences, and the manager's writes."""
    cluster = recording.cluster()
    form = recording.form()
    config = recording.config()
    logger = silent_logger() if verbosity is None else make_logger(verbosity=verbosity)
    failure = ""
    transport = InMemoryTransport(cluster.server, TOKEN)
    async with SwitchedManager(
        lambda: cluster.manager(config, logger=logger)
    ) as manager:
        player = recording.player(transport, cluster.clock, manager, form)
        try:
            await player.play(recording.steps)
        except AssertionError as error:
            failure = str(error)
    played = player.checkpoints()
    expected = recording.expected()
    expected = expected[: len(played)] if failure else expected
    differences = list(comparison.of_checkpoints(played, expected))
    sent = recording.writes_of(manager.writes)
    aliases = form.aliases if isinstance(form, WholeForm) else Aliases()
    aliases.learn(manager.created())
    ours = writes.normalised(sent, aliases)
    return failure, differences, ours


if __name__ == "__main__":
    main()
