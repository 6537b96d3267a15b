"""The subcommand that prints the roles of controllers."""

import click
import yaml

from controller_manager.registry import registry
from controller_manager.runtime.registry import UnknownControllerError
from controller_manager.runtime.roles import controller_roles

from .failure import Failure
from .flags import make_config


@click.command("roles")
@click.option(
    "--feature-gates",
    default="",
    metavar="GATE=BOOL,...",
    help="The gates of the API server; it adds rights to some roles with some gates.",
)
@click.argument("controllers", nargs=-1, metavar="[CONTROLLER]...")
def roles_command(controllers: tuple[str, ...], feature_gates: str) -> None:
    """Print the roles of all controllers, or of those that are named, as manifests.

    An API server creates the roles of kube-controller-manager's own controllers when
    it starts. Give those of other controllers to kubectl auth reconcile, which adds
    rights and takes none away. A controller that acts as the manager
    itself has no role.
    """
    try:
        chosen = registry().select(controllers or ("*",))
    except UnknownControllerError as error:
        raise Failure([f"roles: {error}"]) from None
    given = {"feature-gates": [feature_gates]} if feature_gates else {}
    features = make_config(given, ()).features
    with_roles = [each for each in chosen if not each.runs_first]
    documents = [
        each
        for one in with_roles
        for each in controller_roles(one.account, one.permissions_with(features))
    ]
    click.echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)
