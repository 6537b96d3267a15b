"""The definitions of custom resources, written as manifests."""

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import click
import yaml

from controller_manager.api.apiextensions.definition import Definition
from controller_manager.api.apiextensions.schema import DefinitionError
from controller_manager.registry import registry
from controller_manager.runtime.admission import webhook_service
from controller_manager.runtime.registry import UnknownControllerError

from .failure import Failure


@click.command("crds")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def crds_command(names: tuple[str, ...]) -> None:
    """Print the definitions of custom resources, for kubectl apply.

    NAME is a controller that declares definitions, or one definition as
    package.module:NAME, which may be in the working directory.
    """
    print_definitions(each for name in names for each in _named(name))


def print_definitions(definitions: Iterable[tuple[Definition[Any], str]]) -> None:
    """Print manifests, each once; raises Failure for a wrong declaration.

    Each definition comes with the name of its operator, which may be converting it.
    """
    try:
        documents = [
            each.manifest(webhook_service(name), name)
            for each, name in dict(definitions).items()
        ]
    except DefinitionError as error:
        raise Failure([f"crds: {error}"]) from error
    if not documents:
        raise Failure(["crds: there are none; name them in Descriptor.definitions"])
    click.echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)


def _named(name: str) -> Iterator[tuple[Definition[Any], str]]:
    """Yield the definitions of a controller, or the one that a text names."""
    if ":" in name:
        yield _imported(name), name.partition(":")[0].partition(".")[0]
        return
    try:
        chosen = registry().select([name])
    except UnknownControllerError as error:
        raise Failure([f"crds: {error}"]) from None
    for each in chosen:
        yield from ((definition, each.name) for definition in each.definitions)


def _imported(name: str) -> Definition[Any]:
    module, _, attribute = name.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Failure([f"crds: {name}: {error}"]) from error
    finally:
        sys.path.remove("")
    if not isinstance(found, Definition):
        raise Failure([f"crds: {name} is a {type(found).__name__}, and no Definition"])
    return found
