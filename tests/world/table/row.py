"""A row of the table of what users do."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.security import User

Rng = random.Random

Parts = list[tuple[str, JSON]]
"""Objects that belong together, in the order of creation, with their plurals."""

SAME: Final = "{name}"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one object that users make now and then."""

    plural: str
    edit: Callable[[JSON, Rng], Any]
    subresource: str = ""
    weight: int = 1
    name: str = SAME
    """The name of the object, with ``{name}`` for that of the row's."""

    may_be_refused: bool = False
    undone_after: float = 0.0
    """Seconds after which the same edit undoes the change; 0 if it stays."""


def gone(_: JSON, __: Rng) -> None:
    """Delete the object, instead of a change."""


def anew(_: JSON, __: Rng) -> None:
    """Delete the object, and make it again some seconds later; others stay."""


@dataclass(frozen=True)
class Row:
    """What users do with one kind of objects, and those that belong to them."""

    name: str
    make: Callable[[str, Rng], Parts]
    """Return the objects of a name, as a user writes them."""

    names: tuple[str, ...]
    changes: Mapping[str, Change] = field(default_factory=dict)
    replaced: int = 1
    """The weight of replacing: deleting all, waiting, creating all again."""

    policies: tuple[str, ...] = ("Background",)
    leaves: tuple[tuple[str, str], ...] = ()
    """Objects that go with the deleted ones, for which users wait."""

    needs: tuple[str, ...] = ()
    """Rows whose objects must be there before."""

    last: Mapping[str, Change] = field(default_factory=dict)
    """Changes at the end, after which the state can become final."""

    lasts: bool = True
    """Users create objects that were taken away again, at the end."""

    is_chain: bool = False
    """Each object is owned by the one before it."""

    doomed: frozenset[str] = frozenset()
    """Names of objects that controllers take away when their time has come."""

    ages: Mapping[str, timedelta] = field(default_factory=dict)
    """How old the objects of some names are, as after a restore from a backup."""

    weight: int = 1
    """How many seeds play the row; 0 if only other rows need it."""

    home: str = "default"
    """The namespace of the objects."""

    creators: Mapping[str, User] = field(default_factory=dict)
    """The users who create the objects of some names, if not the administrator."""


def container(image: str = "app:v1", **more: Any) -> JSON:
    """Return a container."""
    return {"name": "c", "image": image, **more}


def pod_spec(image: str = "app:v1", **more: Any) -> JSON:
    """Return the spec of a pod with one container."""
    return {"containers": [container(image)], **more}


def template(app: str, **more: Any) -> JSON:
    """Return a pod template with the label `app`."""
    return {"metadata": {"labels": {"app": app}}, "spec": pod_spec(**more)}


def selecting(app: str, **more: Any) -> JSON:
    """Return the selector and the template of whatever makes pods of `app`."""
    return {
        "selector": {"matchLabels": {"app": app}},
        "template": template(app, **more),
    }


def named(name: str, spec: JSON | None = None, **more: Any) -> JSON:
    """Return an object of a name, with a spec if it is given."""
    return {"metadata": {"name": name}, **({"spec": spec} if spec else {}), **more}


def sets(**values: Callable[[Rng], Any]) -> Callable[[JSON, Rng], None]:
    """Return an edit that sets fields of a spec to values which a rng decides."""

    def edit(obj: JSON, rng: Rng) -> None:
        obj["spec"].update({key: value(rng) for key, value in values.items()})

    return edit


def toggles(key: str) -> Callable[[JSON, Rng], None]:
    """Return an edit that turns a flag of a spec on or off."""

    def edit(obj: JSON, _: Rng) -> None:
        obj["spec"][key] = not obj["spec"].get(key, False)

    return edit


def always(*, value: bool) -> Callable[[Rng], bool]:
    """Return a value that is no choice."""
    return lambda _: value


def any_of(*values: Any) -> Callable[[Rng], Any]:
    """Return a choice among values."""
    return lambda rng: rng.choice(values)


def number(first: int, end: int) -> Callable[[Rng], int]:
    """Return a choice among numbers from `first` to before `end`."""
    return lambda rng: rng.randrange(first, end)


def set_image(obj: JSON, rng: Rng) -> None:
    """Give the template of an object another image."""
    spec = obj["spec"]["template"]["spec"]
    spec["containers"][0]["image"] = f"app:v{rng.randrange(2, 9)}"


def label(obj: JSON, rng: Rng) -> None:
    """Give an object a label that means nothing."""
    obj["metadata"].setdefault("labels", {})["team"] = rng.choice("xyz")
