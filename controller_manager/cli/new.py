"""A new operator: a project with a controller, a custom resource, tests, manifests."""

import re
import subprocess
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import click

from .failure import Failure

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?")
_SUFFIX: Final = re.compile(r"-(operator|controller)$")


@click.command("new")
@click.argument("name")
@click.option("--kind", default="", help="The custom resource; by default from NAME.")
@click.option("--group", default="example.com", help="The API group of the resource.")
def new_command(name: str, kind: str, group: str) -> None:
    """Write the project of a new operator into the directory NAME.

    It has a controller, a custom resource, tests that pass, a Dockerfile, manifests, a
    workflow for CI and a README that says what to do next.
    """
    target = Path(name)
    words = _words(name, kind, group)
    if target.exists():
        raise Failure([f"new: {name} exists already; choose another name"])
    _write(files(__package__).joinpath("project"), target, words)
    for file, command in (("crd.yaml", "crds"), ("manifests.yaml", "manifests")):
        text = _printed(target, words["package"], command)
        (target / file).write_text(text, encoding="utf-8")
    click.echo(f"Wrote {name}. Next: cd {name} && pip install '.[test]' && pytest")


def _words(name: str, kind: str, group: str) -> dict[str, str]:
    """Return the words of the templates; raises Failure for names that cannot be."""
    if not _NAME.fullmatch(name):
        raise Failure(
            [f"new: {name!r}: a name has lower-case letters, digits and dashes"]
        )
    short = _SUFFIX.sub("", name)
    kind = kind or "".join(word.capitalize() for word in short.split("-"))
    if not re.fullmatch("[A-Z][A-Za-z0-9]*", kind):
        raise Failure([f"new: --kind {kind!r}: a kind is like Website"])
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9-]+)+", group):
        raise Failure([f"new: --group {group!r}: a group is a domain of yours"])
    plural = f"{kind.lower()}s"
    return {
        "name": name,
        "package": name.replace("-", "_"),
        "Kind": kind,
        "kind": kind.lower(),
        "plural": plural,
        "PLURAL": plural.upper(),
        "group": group,
    }


def _write(template: Traversable, target: Path, words: dict[str, str]) -> None:
    """Write the files of a template's directory, and those of its directories."""
    target.mkdir()
    for each in template.iterdir():
        name = each.name.removesuffix(".txt").replace("dot-", ".")
        if each.is_dir():
            name = words["package"] if name == "package" else name
            _write(each, target / name, words)
        else:
            text = _filled(each.read_text(encoding="utf-8"), words)
            (target / name).write_text(text, encoding="utf-8")


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub(r"<<(\w+)>>", lambda found: words[found[1]], text)


def _printed(directory: Path, package: str, command: str) -> str:
    """Return the manifests that a command of the new operator prints."""
    words = [sys.executable, "-m", package, command]
    done = subprocess.run(  # noqa: S603 - the package that was just written
        words, cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failure([f"new: {package} {command}: {done.stderr.strip()}"])
    return done.stdout
