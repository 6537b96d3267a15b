"""Users: they create, change, delete and create again what the table says."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal

from .objects import is_deleted, reference_to, uid_of
from .table import TABLE
from .table.row import Change, Row, anew, gone, named
from .world import Stuck, World

OPERATIONS: Final = 4
LONGEST_PAUSE: Final = 20.0
"""Seconds between two operations of one user, at most."""

ROWS: Final = 4
"""Rows of the table that a seed plays, besides those that they need."""

SHOP: Final = "shop"
"""The namespace that users delete and create again, with all that is in it."""

_SOON: Final = 6.0
_TRIES: Final = 300


def rows_of(seed: int, wanted: tuple[str, ...] = ()) -> list[Row]:
    """Return the rows that a seed plays, or those `wanted`, and those that they need.

    Seeds that follow each other play the whole table, and rows with more weight more
    often.
    """
    everything = [name for name, row in TABLE.items() for _ in range(row.weight)]
    span = -(-len(everything) // ROWS)
    random.Random(f"table {seed // span}").shuffle(everything)
    first = seed % span * ROWS
    names = dict.fromkeys(wanted or everything[first : first + ROWS])
    chosen = [TABLE[name] for name in names]
    needed = [TABLE[name] for row in chosen for name in row.needs]
    return list({each.name: each for each in (*needed, *chosen)}.values())


@dataclass
class User:
    """The user of one row in one namespace; no fault changes what is done, or where.

    The time may shift, as users wait until what they have deleted is gone.
    """

    world: World
    row: Row
    namespace: str
    done: list[str] = field(default_factory=list)
    """What was done, for the story of a failure."""

    _broken: set[str] = field(default_factory=set)
    """The names of which the user has deleted an object, and others may follow it."""

    def __post_init__(self) -> None:
        self._rng = random.Random(f"{self.world.seed} {self.namespace} {self.row.name}")

    async def create_all(self) -> None:
        """Create the objects of all names."""
        for name in self.row.names:
            await self._create(name)

    async def _create(self, name: str) -> None:
        self._note(f"create {name}")
        self._broken.discard(name)
        owner: JSON = {}
        for plural, obj in self.row.make(name, self._rng):
            if self.row.is_chain and owner:
                obj["metadata"]["ownerReferences"] = [reference_to(owner)]
            owner = await self._create_part(name, plural, obj)

    async def _create_part(self, name: str, plural: str, obj: JSON) -> JSON:
        """Create an object; try again while a quota has not been counted yet."""
        row, part = self.row, obj["metadata"]["name"]
        for _ in range(_TRIES):
            try:
                made = self.world.create(
                    plural,
                    self.namespace,
                    obj,
                    row.creators.get(name),
                    row.ages.get(part, timedelta()),
                )
            except Refusal as refusal:
                if "status unknown for quota" not in str(refusal):
                    raise
                await asyncio.sleep(1)
            else:
                if part in row.doomed:
                    self.world.dismissed.add(uid_of(made))
                return made
        msg = f"{plural} {part}: its quota is never counted"
        raise Stuck(msg)

    def _note(self, what: str) -> None:
        now = asyncio.get_running_loop().time()
        self.done.append(f"{now:10.3f} s  {self.row.name} in {self.namespace}: {what}")

    async def try_all(self) -> None:
        """Do each operation with each name, in any order, some seconds apart."""
        everything = list(product(dict.fromkeys(self._operations()), self.row.names))
        self._rng.shuffle(everything)
        for what, name in everything:
            await self._operate(what, name, _SOON)

    async def act(self, operations: int) -> None:
        """Do so many operations, some time apart."""
        choices = self._operations()
        for _ in range(operations if choices else 0):
            what, name = self._rng.choice(choices), self._rng.choice(self.row.names)
            await self._operate(what, name, LONGEST_PAUSE)

    def _operations(self) -> list[str]:
        """Return what may be done, each as often as its weight says."""
        changes = self.row.changes.items()
        chosen = [what for what, each in changes for _ in range(each.weight)]
        return [*chosen, *["replace"] * self.row.replaced]

    async def _operate(self, what: str, name: str, longest_pause: float) -> None:
        # The same draws under all faults.
        pause = self._rng.uniform(0.5, longest_pause)
        rng = random.Random(self._rng.random())
        await asyncio.sleep(pause)
        if what == "replace":
            await self.replace(name, rng)
        elif self.row.changes[what].edit is anew:
            await self._make_anew(name, what, self.row.changes[what], rng)
        else:
            change = self.row.changes[what]
            self._change(name, what, change, rng)
            if change.undone_after:
                await asyncio.sleep(change.undone_after)
                self._change(name, what, change, rng)

    async def _make_anew(
        self, name: str, what: str, change: Change, rng: random.Random
    ) -> None:
        self._note(f"{what} {name}")
        if self.row.make(name, random.Random(0))[0][0] != change.plural:
            self._broken.add(name)  # the first may remember the former one, or not
        target, place = change.name.format(name=name), self._place(change.plural)
        if (found := self.world.find(change.plural, place, target)) is None:
            return
        if not is_deleted(found):
            self.world.delete(change.plural, found)
        await self.world.until_gone(change.plural, place, target)
        await asyncio.sleep(rng.uniform(0, LONGEST_PAUSE))
        for plural, obj in self.row.make(name, rng):
            if (plural, obj["metadata"]["name"]) == (change.plural, target):
                await self._create_part(name, plural, obj)

    def _change(self, name: str, what: str, change: Change, rng: random.Random) -> None:
        self._note(f"{what} {name}")
        target = change.name.format(name=name)
        found = self.world.find(change.plural, self._place(change.plural), target)
        if change.edit is gone:
            self._broken.add(name)  # also if something else has just taken it away
        if found is None or is_deleted(found):
            return
        if change.edit is gone:
            self.world.delete(change.plural, found)
            return
        try:
            self.world.change(
                change.plural,
                found,
                lambda obj: change.edit(obj, rng),
                change.subresource,
            )
        except Refusal as refusal:
            if not change.may_be_refused:
                raise
            self._note(f"refused: {refusal}")

    def _place(self, plural: str) -> str:
        return self.namespace if self.world.kind(plural).namespaced else ""

    async def replace(self, name: str, rng: random.Random) -> None:
        """Delete the objects of a name in any order, wait, and create them again."""
        self._note(f"replace {name}")
        await self.delete(name, rng)
        await self._create(name)

    async def delete(self, name: str, rng: random.Random) -> None:
        """Delete the objects of a name, and wait until they are gone."""
        parts = [
            (plural, obj["metadata"]["name"])
            for plural, obj in self.row.make(name, random.Random(0))
        ]
        rng.shuffle(parts)
        for plural, part in parts:
            found = self.world.find(plural, self._place(plural), part)
            if found is not None and not is_deleted(found):
                policy = rng.choice(self.row.policies)
                self.world.delete(plural, found, policy=policy)
            if len(parts) > 1:
                await asyncio.sleep(rng.uniform(0, _SOON))
        more = [(plural, each.format(name=name)) for plural, each in self.row.leaves]
        for plural, part in (*parts, *more):
            await self.world.until_gone(plural, self._place(plural), part)

    async def finish(self) -> None:
        """Create again what is not whole, and do the last changes."""
        for name in self.row.names:
            if self.row.lasts and not self._is_whole(name):
                await self.replace(name, random.Random(0))
            for what, change in self.row.last.items():
                if change.edit is anew:
                    await self._make_anew(name, what, change, random.Random(0))
                else:
                    self._change(name, what, change, random.Random(0))

    def _is_whole(self, name: str) -> bool:
        return name not in self._broken and all(
            self.world.is_there(plural, self._place(plural), part)
            for plural, obj in self.row.make(name, random.Random(0))
            if (part := obj["metadata"]["name"]) not in self.row.doomed
        )


@dataclass
class Users:
    """All users of a seed; those of the shop delete the namespace now and then."""

    world: World
    rows: list[Row]
    is_drawn: bool = True
    """The seed has drawn the rows."""

    home: list[User] = field(init=False)
    shop: list[User] = field(init=False)

    def __post_init__(self) -> None:
        self.home = [User(self.world, each, each.home) for each in self.rows]
        self.shop = [
            User(self.world, each, SHOP) for each in self.rows if self._fits(each)
        ][:1]

    def _fits(self, row: Row) -> bool:
        """Tell whether all objects of a row are in a namespace, and need nothing."""
        parts = row.make(row.names[0], random.Random(0))
        return (
            bool(parts)
            and not row.needs
            and row.home == "default"
            and all(self.world.kind(plural).namespaced for plural, _ in parts)
        )

    async def begin(self) -> None:
        """Let all users create their objects, and do all that they may do."""
        for each in self.home:
            if self.world.find("namespaces", "", each.namespace) is None:
                self.world.create("namespaces", "", named(each.namespace))
            await each.create_all()
        async with asyncio.TaskGroup() as tasks:
            for each in self.home:
                tasks.create_task(each.try_all())

    async def act(self) -> None:
        """Let all users act; raises Stuck if one cannot go on."""
        async with asyncio.TaskGroup() as tasks:
            for each in self.home:
                tasks.create_task(each.act(OPERATIONS))
            if self.shop:
                tasks.create_task(self._keep_shop())

    async def _keep_shop(self) -> None:
        rng = random.Random(f"shop {self.world.seed}")
        for _ in range(2):
            await self._open_shop()
            await asyncio.sleep(rng.uniform(0, 2 * LONGEST_PAUSE))
            found = self.world.find("namespaces", "", SHOP)
            if found is not None and rng.random() < 0.7:
                self.world.delete("namespaces", found)
                await self.world.until_gone("namespaces", "", SHOP)
        await self._open_shop()
        for each in self.shop:
            await each.act(2)

    async def _open_shop(self) -> None:
        if self.world.find("namespaces", "", SHOP) is None:
            self.world.create("namespaces", "", named(SHOP))
            for each in self.shop:
                await each.create_all()

    async def finish(self) -> None:
        """Let all users do their last changes."""
        for each in (*self.home, *self.shop):
            await each.finish()

    def story(self) -> list[str]:
        """Return what all users have done, in the order of time."""
        return sorted(line for each in (*self.home, *self.shop) for line in each.done)
