"""Plays scenarios of controllers from YAML, on a cluster in memory.

A file of ``tests/data/controllers`` has scenarios by their sentences, and ``anchors``
that are values of several. Each is a list of steps, or has ``steps``, and besides
``cluster``, the options of its cluster; ``nodes``, those of its nodes; ``row`` and
``rows``: it is played with each row, in which ``$name`` has a value; ``slow``.

A step is acts, and what is seen after them: ``pod a; remove nodes n; 10: {names pods:
[a], count writes: 2}``. An act is a number of seconds that pass, or calls a method of
the cluster. Its words are its arguments; those of the last act may also be a mapping,
by name, a list, in order, or one value. What follows seconds are calls and what they
return. ``uid = pod web`` names a result; ``refused`` beside an act is the message of
its refusal. Further calls are

* ``run``: runs the manager, with the arguments of its config, also in place of the one
  before; ``features`` are its gates, ``hours`` the error of its clock; ``stop``;
* ``writes``, as method, path and status; ``sorted_writes``; ``methods``; ``answers``,
  and those ``refused``; ``rewritten``, the names of what was patched; ``count_writes
  a``, to an object; ``sent 0 spec.a``, the body of a write, or a part of it; ``forget``
  forgets them;
* ``before PUT /status times=2``: plays steps before the first requests whose paths
  end so, ``*`` for all; ``refuse PUT /status 409 Conflict times=2: why`` refuses them;
  ``answer PUT /status 404: text``; ``cut PUT after=2`` loses all later ones; ``accept``
  ends these; ``seen``, the number of all those requests; ``refuse_with PUT /status: a
  sentence``;
* ``silence pods`` and ``speak pods``, for the watches of a resource; ``break_at /pods``
  fails all requests and watches whose paths end so, ``break_at`` none;
* ``at pods web status.phase``, the value at a path of an object; ``count``, the number
  of what another call returns; ``between 2 4 seen``; ``times 5``, which repeats steps.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.clock import LoopClock
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import EPOCH, RecordingTransport, Write
from tests.runtime.silence import SilentWatches

from .hands import Before, Hands
from .responses import refusal

DIRECTORY: Final = Path(__file__).parents[1] / "data" / "controllers"


def scenarios(name: str) -> pytest.MarkDecorator:
    """Run a test with each scenario of a file, and with each of its rows."""
    found = []
    text = (DIRECTORY / f"{name}.yaml").read_text()
    for title, given in yaml.load(text, yaml.CSafeLoader).items():
        if title == "anchors":
            continue
        case = {"steps": given} if isinstance(given, list) else given
        marks = [pytest.mark.slow] if case.get("slow") else []
        for number, row in enumerate(case.get("rows", [[]])):
            cells = row if isinstance(row, list) else [row]
            values = dict(zip(case.get("row", ()), cells, strict=True))
            label = f"{title} {number}" if values else title
            found.append(pytest.param(Scenario(case, values), id=label, marks=marks))
    return pytest.mark.parametrize("scenario", found)


class Scenario:
    """One scenario, with the values of one row."""

    def __init__(self, case: JSON, values: JSON) -> None:
        self._case = case
        self._values = values

    async def play(
        self,
        cluster: Callable[..., Hands],
        config: Callable[..., Config],
        user: Callable[[Any], Any] = lambda _: None,
        **options: Any,
    ) -> None:
        """Play it on a cluster with these options, except those that it has itself.

        The methods of a `user` of the cluster can be called, too.
        """
        own = _filled(self._case.get("cluster", {}), self._values)
        options |= own
        if "features" in own:
            options["features"] = FeatureGates(own["features"])
        made = cluster(**options)
        async with AsyncExitStack() as ended, AsyncExitStack() as running:
            ended.push_async_callback(made.close)
            player = _Player(made, config, self._values, running)
            player.user = user(made)
            if "nodes" in self._case:
                await ended.enter_async_context(made.nodes(**self._case["nodes"]))
            player.is_confined = bool(options.get("rbac"))
            await player.play(self._case["steps"])


class _Player:
    is_confined = False
    user: Any = None

    def __init__(
        self,
        cluster: Hands,
        config: Callable[..., Config],
        values: JSON,
        running: AsyncExitStack,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._values = dict(values)
        self._running = running
        self._recording = RecordingTransport(cluster.transport)
        self._watches = _Watches(cluster.transport)
        self._meddlers: list[Before] = []

    async def play(self, steps: list[Any]) -> None:
        for given in steps:
            step = dict(given) if isinstance(given, dict) else {given: None}
            refused = step.pop("refused", None)
            for key, value in step.items():
                *before, last = str(key).split("; ")
                for each in before:
                    await self._act(each, None)
                if refused is None:
                    await self._act(last, value)
                    continue
                with pytest.raises(Refusal) as error:
                    await self._act(last, value)
                assert error.value.message == _filled(refused, self._values)

    async def _act(self, key: str, value: Any) -> None:
        name, equals, call = key.rpartition(" = ")
        call = str(_filled(call, self._values))
        if _SECONDS.fullmatch(call):
            await asyncio.sleep(float(call))
            expected = _filled(value or {}, self._values)
            shown = {call: await self._call(call) for call in expected}
            assert shown == expected, shown
            return
        if isinstance(value, str) or not call.startswith(("before ", "times ")):
            value = _filled(value, self._values)
        found = await self._call(call, value)
        if equals:
            self._values[name] = found

    async def _call(self, key: str, value: Any = None) -> Any:
        verb, *words = str(_filled(key, self._values)).split(" ")
        if verb == "count":
            return len(await self._call(" ".join(words)))
        if verb in ("before", "times"):
            value = [value]
        named = dict(each.split("=", 1) for each in words if _NAMED.match(each))
        arguments: list[Any] = [each for each in words if not _NAMED.match(each)]
        options = {name: yaml.safe_load(each) for name, each in named.items()}
        if isinstance(value, dict):
            options |= value
        elif value is not None:
            arguments += value if isinstance(value, list) else [value]
        actors = (self, self.user, self._cluster)
        actor = next(each for each in actors if hasattr(each, verb))
        found = getattr(actor, verb)(*arguments, **options)
        found = await found if asyncio.iscoroutine(found) else found
        return msgspec.json.decode(msgspec.json.encode(found))  # tuples are lists then

    async def run(
        self,
        *words: str,
        hours: float = 0,
        features: JSON | None = None,
        **options: Any,
    ) -> None:
        await self._running.aclose()
        config = self._config(*words, **options)
        if features:
            config = replace(config, features=FeatureGates(features))
        if self.is_confined:
            context = self._cluster.confined_manager(config)
        else:
            clock = LoopClock(EPOCH + timedelta(hours=hours)) if hours else None
            context = self._cluster.manager(config, self._watches, clock=clock)
        self._recording = await self._running.enter_async_context(context)

    async def stop(self) -> None:
        await self._running.aclose()

    def _meddle(self, method: str, path: str, act: Any, times: int) -> Before:
        assert not self.is_confined
        inner = self._watches.inner
        end = path.removeprefix("*")
        meddler = Before(self._cluster, method, end, act, times, inner)
        self._meddlers.append(meddler)
        self._watches.inner = meddler
        return meddler

    def before(self, method: str, path: str, steps: list[Any], times: int = 1) -> None:
        self._meddle(method, path, lambda: self.play(steps), times)

    def refuse(
        self,
        method: str,
        path: str,
        code: str,
        reason: str = "",
        why: str = "no",
        times: int = 999,
    ) -> None:
        answer = refusal(int(code), reason, why)
        self._meddle(method, path, lambda: answer, times)

    def answer(
        self, method: str, path: str, code: str, text: str, times: int = 999
    ) -> None:
        answer = Response(int(code), {}, text.encode())
        self._meddle(method, path, lambda: answer, times)

    def cut(self, method: str, after: int = 0) -> None:
        """Lose all requests of a method after the first ones."""

        def lose() -> None:
            if meddler.seen > after:
                raise TransportError

        meddler = self._meddle(method, "", lose, 999)

    def refuse_with(self, method: str, path: str, why: str) -> None:
        self.refuse(method, path, "500", "InternalError", why)

    def all_seen(self) -> list[int]:
        return [each.seen for each in self._meddlers]

    def accept(self) -> None:
        for each in self._meddlers:
            each.times = 0

    def seen(self) -> int:
        return self._meddlers[-1].seen

    async def between(self, least: str, most: str, *call: str) -> bool:
        found = await self._call(" ".join(call))
        return bool(int(least) <= found <= int(most))

    def break_at(self, path: str = "") -> None:
        self._watches.broken = path

    def silence(self, plural: str) -> None:
        self._watches.silence(plural)

    def speak(self, plural: str) -> None:
        self._watches.speak(plural)

    def writes(self) -> list[str]:
        return [_shown(each) for each in self._recording.writes]

    def count_writes(self, name: str) -> int:
        return sum(e.path.endswith(f"/{name}") for e in self._recording.writes)

    def posts(self, plural: str) -> int:
        """Return the number of creations, dry runs included."""
        return self.writes_of("POST", f"/{plural}")

    def writes_of(self, method: str, end: str) -> int:
        every = self._recording.writes
        return sum(e.method == method and e.path.endswith(end) for e in every)

    def deleted_paths(self) -> list[str]:
        every = [_shown(e) for e in self._recording.writes if e.method == "DELETE"]
        return [each.split(" ")[1] for each in every]

    def methods_on_pods(self) -> list[str]:
        return [e.method for e in self._recording.writes if "/pods" in e.path]

    def scaled(self) -> list[int]:
        """Return the answers to changes of scales."""
        every = self._recording.writes
        return [each.status for each in every if each.path.endswith("/scale")]

    def rewritten(self) -> list[str]:
        """Return the names of the objects that were patched, apart from statuses."""
        patched = [e.path for e in self._recording.writes if e.method == "PATCH"]
        return [each.rpartition("/")[2] for each in patched if "/status" not in each]

    def sorted_writes(self) -> list[str]:
        return sorted(self.writes())

    def methods(self) -> list[str]:
        return [each.method for each in self._recording.writes]

    def answers(self) -> list[int]:
        return [each.status for each in self._recording.writes]

    def refused(self) -> list[int]:
        return [each for each in self.answers() if each >= 400]

    def was_answered(self, code: str) -> bool:
        return int(code) in self.answers()

    def sent(self, number: str, path: str = "") -> Any:
        body = self._recording.writes[int(number)].body
        return _value(msgspec.json.decode(body), path)

    def forget(self) -> None:
        self._recording.writes.clear()

    async def times(self, number: str, steps: list[Any]) -> None:
        for each in range(int(number)):
            self._values["number"] = each
            await self.play(steps)

    def is_of(self, resource: str, name: str, uid: str) -> bool:
        return bool(self.at(resource, name, "metadata.uid") == uid)

    def at(self, resource: str, name: str, path: str = "", at: str = "") -> Any:
        return _value(self._cluster.stored(resource, name, at), path)


@dataclass
class _Watches(SilentWatches):
    """Fails requests and watches whose paths end with `broken`, too."""

    broken: str = ""

    async def request(self, request: Request) -> Response:
        if self.broken and request.path.endswith(self.broken):
            return refusal(500, "InternalError", "broken")
        return await super().request(request)

    async def stream(self, request: Request) -> Stream:
        if self.broken and request.path.endswith(self.broken):
            return await self.inner.stream(replace(request, path="/nowhere"))
        return await super().stream(request)


_SECONDS: Final = re.compile(r"[\d.]+")
_NAMED: Final = re.compile(r"[\w./-]+=")


def _shown(write: Write) -> str:
    path = re.sub(r"^/api/v1/|^/apis/[^/]+/[^/]+/", "", write.path)
    return f"{write.method} {path.removeprefix('namespaces/default/')} {write.status}"


def _value(found: Any, path: str) -> Any:
    for step in path.split(".") if path else ():
        if found is None:
            break
        found = found[int(step)] if isinstance(found, list) else found.get(step)
    return found


def _filled(value: Any, values: JSON) -> Any:
    """Return a value in which each ``$name`` stands for its value."""
    if isinstance(value, dict):
        pairs = ((_filled(k, values), _filled(v, values)) for k, v in value.items())
        return dict(pairs)
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    if value[1:] in values:
        return values[value[1:]]
    return re.sub(r"\$(\w+)", lambda each: str(values.get(each[1], each[0])), value)
