"""Draw pictures of terminals for docs/pictures, from what the program really prints.

    python config/site/terminals.py          # needs kubectl; takes about a minute

`demo.svg` is the demo when it breaks a rollout. `explain.svg` is the answer for a
deployment that a quota holds back.
"""

import os
import pty
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
PROGRAM: Final = (sys.executable, "-m", "controller_manager")

_STEP: Final = "Roll web back"
"""The step of the demo before which the picture is taken."""

_QUOTA: Final = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: shop}
spec: {hard: {pods: "2"}}
"""

_DEPLOYMENT: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.28"}]}
"""

_STUCK: Final = """
kubectl wait --for=jsonpath='{.status.hard.pods}'=2 -n shop quota/team >/dev/null
kubectl apply -f deployment.yaml >/dev/null
kubectl wait --for=condition=ReplicaFailure -n shop deployment/web >/dev/null
kubectl wait --for=jsonpath='{.status.availableReplicas}'=2 -n shop deployment/web \\
  >/dev/null
"""

_PAGE: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
    .{unique_id}-matrix {{
        font-family: ui-monospace, Menlo, Consolas, monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
    }}
    .{unique_id}-title {{ font: bold 16px sans-serif; }}
{styles}
</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As rich's own page, but without a font from somewhere else."""


def main() -> None:
    """Draw all pictures."""
    screen = shown(run(*PROGRAM, "demo"))
    (end,) = (n for n, line in enumerate(screen) if _STEP in line and "s  " not in line)
    draw("demo", ["$ controller-manager demo", *screen[:end]])
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "quota.yaml").write_text(_QUOTA)
        Path(directory, "deployment.yaml").write_text(_DEPLOYMENT)
        explain = f"{' '.join(PROGRAM)} explain deploy/web -n shop"
        printed = run(
            *PROGRAM,
            *("devcluster", "--port=0", "--manifests=quota.yaml", "--", "sh", "-c"),
            f"{_STUCK}\n{explain}",
            cwd=directory,
        )
    draw(
        "explain", ["$ controller-manager explain deploy/web -n shop", *shown(printed)]
    )


def run(*command: str, cwd: str | None = None) -> str:
    """Run a command on a terminal of 96 columns, and return what it prints."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": "96",
        "LINES": "50",
        "TERM": "xterm-256color",
    }
    process = subprocess.Popen(command, stdout=theirs, env=environment, cwd=cwd)  # noqa: S603
    os.close(theirs)
    printed = bytearray()
    try:
        while part := os.read(ours, 65536):
            printed += part
    except OSError:  # the program has ended, and with it the terminal
        process.wait()
    return printed.decode()


def shown(printed: str) -> list[str]:
    """Return the lines that are left once lines were erased and written again."""
    lines = [""]
    for part in re.split(r"(\n|\r|\x1b\[2K|\x1b\[1A|\x1b\[\?25[hl])", printed):
        match part:
            case "\n":
                lines.append("")
            case "\x1b[1A":
                lines.pop()
            case "\x1b[2K":
                lines[-1] = ""
            case _ if not part.startswith(("\r", "\x1b[?")):
                lines[-1] += part
    return lines


def draw(name: str, lines: list[str]) -> None:
    """Draw the lines of a terminal."""
    console = Console(
        record=True, width=96, file=StringIO(), force_terminal=True, highlight=False
    )
    console.print(Text.from_ansi("\n".join(lines).rstrip()))
    drawn = console.export_svg(
        title="controller-manager", theme=MONOKAI, code_format=_PAGE, unique_id=name
    )
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.svg").write_text(drawn)


if __name__ == "__main__":
    main()
