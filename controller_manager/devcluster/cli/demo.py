"""The subcommand ``demo``."""

import click

from controller_manager.cli.subcommands import EXPLAIN, Explain
from controller_manager.runtime.registry import Registry

from .cluster import logger_of, needs_extra, run_cluster


@click.command("demo")
@click.option("-v", "--v", "verbosity", type=int, default=-1, help="Log verbosity.")
@click.pass_context
@click.make_pass_decorator(Registry)
def demo_command(build: Registry, ctx: click.Context, verbosity: int) -> None:
    """Show a deployment on a development cluster: apply, update, roll back, scale."""
    try:
        from .steps import run_demo  # noqa: PLC0415 - an extra
    except ImportError as error:
        needs_extra(error)
    explain: Explain | None = ctx.meta.get(EXPLAIN)
    run_cluster(run_demo(build, logger_of(verbosity), explain))
