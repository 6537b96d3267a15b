"""The subcommand that prints the roles of controllers."""

import click
import yaml

from controller_manager.cli.failure import Failure
from controller_manager.registry import registry
from controller_manager.runtime.registry import UnknownControllerError
from controller_manager.runtime.roles import controller_roles


@click.command("roles")
@click.argument("controllers", nargs=-1, metavar="[CONTROLLER]...")
def roles_command(controllers: tuple[str, ...]) -> None:
    """Print the roles of all controllers, or of those that are named, as manifests.

    An API server creates the roles of kube-controller-manager's own controllers when
    it starts. Apply those of other controllers. A controller that acts as the manager
    itself has no role.
    """
    try:
        chosen = registry().select(controllers or ("*",))
    except UnknownControllerError as error:
        raise Failure([f"roles: {error}"]) from None
    with_roles = [each for each in chosen if not each.runs_first]
    documents = [
        each
        for one in with_roles
        for each in controller_roles(one.account, one.permissions)
    ]
    click.echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)
