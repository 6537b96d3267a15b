"""Checks the controllers that do not start with this config, and useless flags."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.manager.absent import LEFT_OUT, Absent, absent_controllers
from controller_manager.options.config import Config

from .examination import Examination
from .finding import Finding, error, ok, warning

_LEASE: Final = ("kube-system", "kube-controller-manager")


async def check_controllers(examined: Examination) -> list[Finding]:
    """Check that the config starts all controllers that upstream runs by default.

    With another lease than upstream's, the other controllers run elsewhere. There a
    manager without any controller stands by. With upstream's lease it would keep
    kube-controller-manager from working.
    """
    election = examined.config.generic.leader_election
    is_replacing = (election.resource_namespace, election.resource_name) == _LEASE
    if not examined.starting:
        make = error if election.leader_elect and is_replacing else warning
        return [make("no controller starts", "name one in --controllers")]
    if not election.leader_elect or not is_replacing:
        return [ok(f"{len(examined.starting)} controllers start")]
    absent = absent_controllers(examined.build, examined.config, examined.root_ca)
    if not absent:
        return [ok(f"{len(examined.starting)} controllers start, none is left out")]
    return list(_warnings(absent))


def _warnings(absent: Sequence[Absent]) -> Iterator[Finding]:
    left_out = [each.name for each in absent if each.why == LEFT_OUT]
    if left_out:
        text = f"--controllers leaves out {', '.join(left_out)}"
        yield warning(text, "name them there, unless another manager runs them")
    for each in absent:
        if each.why != LEFT_OUT:
            yield warning(f"{each.name} would not run", each.why)


async def check_flags(config: Config) -> list[Finding]:
    """Repeat the warnings of the config, which the daemon logs at its start."""
    if not config.warnings:
        return [ok("all flags have an effect")]
    return [warning(each) for each in config.warnings]
