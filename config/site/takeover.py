"""Measure a take-over, and draw it and the way of one change for docs/pictures.

    python config/site/takeover.py          # takes about a minute

Two daemons run beside a development cluster with the flags' defaults. The leader gets
a signal, and a deployment is created at once. The picture shows who led when, and when
the deployment got its replica set.
"""

import json
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
PROGRAM: Final = (sys.executable, "-m", "controller_manager")

_LEASE: Final = (
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
)
_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_REPLICA_SETS: Final = "/apis/apps/v1/namespaces/default/replicasets"
_DEPLOYMENT: Final = {
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    },
}
_PATIENCE: Final = 60.0
"""The seconds within which everything must happen."""


@dataclass(frozen=True)
class TakeOver:
    """What was seen after the signal, in seconds from it."""

    title: str
    acquired: float
    worked: float


class Server:
    """The API server of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self._url = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        self._trust = ssl._create_unverified_context()  # noqa: S323, SLF001

    def ask(self, path: str, body: Any = None) -> Any:
        """Return the answer to a GET, or to a POST of a body; none for "not found"."""
        request = urllib.request.Request(
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, context=self._trust) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 404:  # noqa: PLR2004
                raise
            return None

    def holder(self) -> str:
        """Return the identity that holds the lease, or nothing."""
        lease = self.ask(_LEASE)
        return (lease or {"spec": {}})["spec"].get("holderIdentity") or ""


def until(condition: Any) -> float:
    """Wait for a condition, and return the time."""
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit("the take-over did not happen within a minute")
        time.sleep(0.05)
    return time.monotonic()


def measure(title: str, signum: signal.Signals) -> TakeOver:
    """Run a cluster and two daemons, and send the leader a signal."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kubeconfig = directory / "kubeconfig"

        def start(*arguments: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((directory / f"{len(arguments)}.log").open("ab"))
            process = subprocess.Popen([*PROGRAM, *arguments], stdout=log, stderr=log)  # noqa: S603
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        start(
            *("devcluster", "--port=0", "--without-controllers"),
            f"--write-kubeconfig={kubeconfig}",
        )
        until(kubeconfig.exists)
        server = Server(kubeconfig)
        flags = (f"--kubeconfig={kubeconfig}", "--secure-port=0")
        leader = start(*flags)
        until(server.holder)
        held_by = server.holder()
        start(*flags, "--v=2")
        time.sleep(
            8
        )  # the second one has its caches; the first renews every two seconds
        leader.send_signal(signum)
        began = time.monotonic()
        server.ask(_DEPLOYMENTS, _DEPLOYMENT)
        acquired = until(lambda: server.holder() not in ("", held_by))
        worked = until(lambda: server.ask(_REPLICA_SETS)["items"])
        return TakeOver(title, acquired - began, worked - began)


_STYLE: Final = (
    "<style>text{font:13px sans-serif;fill:#768390}.title{font-weight:bold}"
    ".inside{fill:#fff}.grid{stroke:#8b949e;stroke-opacity:.35}"
    ".arrow{stroke:#768390;stroke-width:1.5;fill:none;marker-end:url(#end)}"
    ".box{fill:#2f81f7}.own{fill:#1a7f5a}.other{fill:#57606a}"
    ".gap{fill:#d1242f;fill-opacity:.2}</style>"
    '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#768390"/></marker>'
    "</defs>"
)


def drawing(width: int, height: int, title: str, parts: list[str]) -> str:
    """Return a picture that reads well on a light and on a dark page."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    return "\n".join([head, f"<title>{title}</title>", _STYLE, *parts, "</svg>\n"])


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {place} class="{kind}">{words}</text>'


def rectangle(x: float, y: float, width: float, height: float, kind: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.0f}"'
    return f'<rect {place} rx="4" class="{kind}"/>'


def arrow(path: str) -> str:
    return f'<path class="arrow" d="{path}"/>'


def bar(x: float, y: float, width: float, kind: str, words: str = "") -> str:
    shape = rectangle(x, y, width, 26, kind)
    return shape + text(x + 8, y + 18, words, "inside") if words else shape


def draw_take_overs(found: list[TakeOver]) -> str:
    """Draw who led when, on one scale of seconds."""
    left, scale, before, end = 120, 26.0, 6, 22

    def x(seconds: float) -> float:
        return left + (before + seconds) * scale

    parts: list[str] = []
    for number, each in enumerate(found):
        y = 14 + number * 138
        waits = (before + each.acquired) * scale
        parts += [
            text(0, y, each.title, "title"),
            text(0, y + 32, "first manager"),
            bar(x(-before), y + 14, before * scale, "box", "leads"),
            text(0, y + 64, "second manager"),
            bar(x(-before), y + 46, waits, "other", "waits, its caches filled"),
            bar(x(each.acquired), y + 46, x(end) - x(each.acquired), "box", "leads"),
            rectangle(x(0), y + 10, each.worked * scale, 76, "gap"),
            text(x(each.worked) + 6, y + 32, f"replica set after {each.worked:.1f} s"),
        ]
        for second in range(0, end + 1, 5):
            parts += [
                f'<path class="grid" d="M{x(second):.1f} {y + 10}v78"/>',
                text(x(second), y + 104, f"{second} s", anchor="middle"),
            ]
    height = 14 + len(found) * 138
    return drawing(int(x(end)) + 20, height, "A take-over in time", parts)


_STATIONS: Final = (
    ("API server", "other", "bytes of a watch"),
    ("client", "box", "typed, frozen event"),
    ("reflector, store", "box", "For, Owns, Maps: the object's key"),
    ("queue", "box", "each key once, delayed, by rate"),
    ("worker", "box", "waits until caches show own writes"),
    ("reconcile", "own", "reads caches, chooses, writes"),
)
_BACK: Final = (
    "Back to the queue: done · look again after some seconds · failed, with a backoff"
)


def draw_change() -> str:
    """Draw the way of one change, from a watch to a write."""
    width, step, x = 190, 62, 40
    parts = []
    for number, (name, kind, passes) in enumerate(_STATIONS):
        y = 10 + number * step
        parts += [
            rectangle(x, y, width, 34, kind),
            text(x + width / 2, y + 22, name, "inside", "middle"),
        ]
        if number < len(_STATIONS) - 1:
            parts.append(arrow(f"M{x + width / 2} {y + 34}V{y + step - 1}"))
            parts.append(text(x + width / 2 + 10, y + 52, passes))
    top, bottom = 27, 10 + (len(_STATIONS) - 1) * step + 17
    right = 500
    queue = 10 + 3 * step + 17
    parts += [
        arrow(f"M{x + width} {bottom}H{right}V{top}H{x + width + 1}"),
        text(right + 8, (top + bottom) / 2, "create, patch, delete, status"),
        arrow(f"M{x} {bottom}H14V{queue}H{x - 1}"),
        text(x + width + 10, bottom - 6, "reads caches, chooses, writes"),
        text(x, bottom + 36, _BACK),
    ]
    return drawing(720, bottom + 50, "The way of one change", parts)


def main() -> None:
    """Measure, and draw."""
    found = [
        measure("The first manager ends (SIGTERM)", signal.SIGTERM),
        measure("The first manager is killed (SIGKILL)", signal.SIGKILL),
    ]
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "takeover.svg").write_text(draw_take_overs(found))
    (PICTURES / "change.svg").write_text(draw_change())


if __name__ == "__main__":
    main()
