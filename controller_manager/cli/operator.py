"""An operator: a process with the controllers of an author, and no others."""

import os
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NoReturn

import click
import yaml
from msgspec.structs import replace as with_fields

from controller_manager.client.identity.credentials import (
    SERVICE_ACCOUNT,
    is_in_cluster,
)
from controller_manager.options.flag import Flag
from controller_manager.options.general_flags import GENERAL_FLAGS
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.reconciler import with_watched
from controller_manager.runtime.registry import Registry, RegistryError

from . import flags
from .command import exit_with, run_with
from .crds import print_definitions
from .failure import Failure
from .manifests import PORT, manifests_elsewhere, operator_manifests

_OF_MANAGERS: Final = frozenset(
    (
        "allocate-node-cidrs",
        "config",
        "emulated-version",
        "enable-leader-migration",
        "leader-elect-resource-lock",
        "leader-migration-config",
        "preview",
        "preview-dry-run",
        "preview-grace",
        "use-service-account-credentials",
    )
)
"""Flags that concern kube-controller-manager, or managers with many controllers."""

_OF_SEVERAL: Final = frozenset(
    (
        "controller-kube-api-burst",
        "controller-kube-api-qps",
        "controller-start-interval",
        "controllers",
    )
)
"""Flags that make a choice among controllers."""


def run(*controllers: Descriptor, name: str = "", namespace: str = "") -> NoReturn:
    """Run controllers as a whole process until a signal, by the command line; exit.

    The process takes a lease of its own name in its own namespace, serves probes and
    metrics over HTTPS, and reaches the API server by ``--kubeconfig``, the variable
    KUBECONFIG, the account of its pod, or ``~/.kube/config``. It has the flags of the
    controllers and those of the process, see ``--help``. Its subcommands ``crds`` and
    ``manifests`` print what it needs in a cluster.

    `name` is that of the first controller by default, `namespace` that of the pod, or
    ``default``. A mistake ends the process with one line and the code 1.

    >>> def main():
    ...     run(CONTROLLER)
    """
    exit_with(lambda: make_command(controllers, name, namespace), name or "operator")


def make_command(
    controllers: tuple[Descriptor, ...], name: str = "", namespace: str = ""
) -> click.Group:
    """Return the command of an operator; raises RegistryError."""
    build = operator_build(controllers, name, namespace)
    return _OperatorCommand(
        build.component,
        commands={"crds": definitions_command, "manifests": manifests_command},
        callback=_run,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "obj": build},
    )


def operator_build(
    controllers: tuple[Descriptor, ...], name: str = "", namespace: str = ""
) -> Registry:
    """Return the controllers as the build of a process of their own.

    Each requires the resources that its class watches, too. Raises RegistryError if
    there is no controller, or if one cannot be imported.
    """
    if not controllers:
        msg = "run() needs at least one controller; give it a Descriptor"
        raise RegistryError(msg)
    name = name or controllers[0].name
    descriptors = [_with_watched(each) for each in controllers]
    general = _general_flags(descriptors, name, namespace or _own_namespace())
    return Registry(
        descriptors,
        component=name,
        version=_version_of(controllers[0]),
        general_flags=general,
    )


def _version_of(descriptor: Descriptor) -> str:
    """Return the version of the distribution that is called as the package is."""
    package = descriptor.resolve().__module__.partition(".")[0]
    try:
        return version(package)
    except PackageNotFoundError:  # a file that is run as it is
        return "unknown"


def _with_watched(descriptor: Descriptor) -> Descriptor:
    try:
        return with_watched(descriptor)
    except (ImportError, AttributeError) as error:
        msg = f"{descriptor.name} cannot be imported: {error}; repair its `load`"
        raise RegistryError(msg) from error


def _own_namespace(directory: Path = SERVICE_ACCOUNT) -> str:
    """Return the namespace of the pod that this process runs in, or "default"."""
    if not is_in_cluster(directory):
        return "default"
    return (directory / "namespace").read_text(encoding="utf-8").strip()


def _kubeconfig() -> str:
    """Return the file that names the API server, "" for the account of the pod."""
    if path := os.environ.get("KUBECONFIG"):
        return path
    home = Path.home() / ".kube" / "config"
    return str(home) if not is_in_cluster() and home.exists() else ""


def _general_flags(
    descriptors: list[Descriptor], name: str, namespace: str
) -> Iterator[Flag]:
    """Yield the flags of the process; those that make no sense for it are hidden."""
    hidden = set(_OF_MANAGERS)
    if len(descriptors) == 1:
        hidden |= _OF_SEVERAL
    if not any(each.gates or each.requires_gates for each in descriptors):
        hidden.add("feature-gates")
    defaults = {
        # As in controller-runtime since 0.21: the API server's flow control is fairer.
        "kube-api-qps": "-1",
        "kubeconfig": _kubeconfig() or None,
        "leader-elect-resource-name": name,
        "leader-elect-resource-namespace": namespace,
        "secure-port": str(PORT),
    }
    if any(each.has_webhooks for each in descriptors):  # kubelet asks for the last one
        paths = "/healthz,/readyz,/livez,/readyz/webhooks"
        defaults["authorization-always-allow-paths"] = paths
    for flag in GENERAL_FLAGS:
        yield with_fields(
            flag,
            default=defaults.get(flag.name, flag.default),
            hidden=flag.name in hidden or bool(flag.inert or flag.used_by),
        )


class _OperatorCommand(flags.TakesFlags, click.Group):
    """Parses flags as the daemon does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Convert pflag's syntax to click's; find unknown flags."""
        build = flags.build_of(ctx)
        own, rest = flags.split(args, self.commands.__contains__, build)
        return super().parse_args(ctx, [*self.taken(ctx, own), *rest])

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands, and the flags by section."""
        build = flags.build_of(ctx)
        about = f"Runs {', '.join(build.names)} for the API server of a cluster."
        commands: Mapping[str, str] = {
            name: each.get_short_help_str(200) for name, each in self.commands.items()
        }
        text = flags.flags_help_text(str(self.name), about, {}, build, commands)
        formatter.write(text)


def _run(**given: tuple[str, ...]) -> None:
    ctx = click.get_current_context()
    values = flags.given_values(given)
    if ctx.invoked_subcommand is None:
        run_with(values, ctx.meta[flags.PROBLEMS], flags.build_of(ctx))
    elif problems := ctx.meta[flags.PROBLEMS] or [
        f"--{each}: {ctx.invoked_subcommand} takes no flags of the process"
        for each in values
    ]:
        raise Failure(problems)


@click.command("manifests")
@click.option("--namespace", default="", help="Where it runs; its name by default.")
@click.option("--image", default="", help="The image of the container.")
@click.option("--cluster", default="", help="Of another cluster that it works on.")
@click.pass_context
def manifests_command(
    ctx: click.Context, namespace: str, image: str, cluster: str
) -> None:
    """Print what the process needs in a cluster, for kubectl apply."""
    print_manifests(flags.build_of(ctx), namespace, image, cluster)


@click.command("crds")
@click.pass_context
def definitions_command(ctx: click.Context) -> None:
    """Print the definitions of its custom resources, for kubectl apply."""
    build = flags.build_of(ctx)
    print_definitions(
        (each, build.component) for one in build.descriptors for each in one.definitions
    )


def print_manifests(build: Registry, namespace: str, image: str, cluster: str) -> None:
    """Print the manifests of an operator for its own cluster, or for another one.

    Raises Failure for an unknown cluster.
    """
    if cluster:
        if cluster not in build.clusters:
            known = ", ".join(build.clusters) or "none"
            raise Failure([f"there is no cluster {cluster!r}; others are: {known}"])
        click.echo(f"# For the cluster {cluster}.")
        documents = manifests_elsewhere(build, cluster, namespace)
    else:
        if build.clusters:
            others = ", ".join(f"--cluster={each}" for each in build.clusters)
            click.echo(f"# For the first cluster. Others: {others}")
        documents = operator_manifests(build, namespace, image)
    click.echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)
