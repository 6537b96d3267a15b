"""The subcommand that examines a cluster before a swap."""

import os
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import ClassVar, Final

import click
import yaml

from controller_manager.client.identity.credentials import (
    SERVICE_ACCOUNT,
    is_in_cluster,
)
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.clock import SystemClock
from controller_manager.doctor import finding
from controller_manager.doctor.checks import examine, local_checks
from controller_manager.doctor.examination import Examination, OwnPod
from controller_manager.doctor.static_pod import IMAGE, StaticPod, StaticPodError
from controller_manager.manager.control_loop import InMainLoop
from controller_manager.observability.logs import library_logs, silent_logger
from controller_manager.options.config import Config
from controller_manager.options.durations import parse_duration
from controller_manager.registry import registry

from .daemon import Opener, connect, run
from .failure import Failure
from .flags import PROBLEMS, FlagsCommand, given_values, make_config

_FORMATS: Final = {"text": finding.as_text, "json": finding.as_json}
_OWN: Final = {
    "-o": "output",
    "--output": "output",
    "--check-timeout": "timeout",
    "--from-manifest": "manifest",
    "--write-manifest": "written",
    "--image": "image",
}
_DEFAULTS: Final = {"output": "text", "timeout": "30s"}


class DoctorCommand(FlagsCommand):
    """Takes the daemon's flags, and some of its own."""

    own: ClassVar[Mapping[str, str]] = {
        "-o, --output string": "The format of the report: text or json. "
        '(default "text")',
        "    --check-timeout duration": "The time that each check may take. "
        "(default 30s)",
        "    --from-manifest file": "Take the flags from kube-controller-manager's "
        "static pod. Flags that are given as well win.",
        "    --write-manifest file": "Write the static pod of this program in its "
        "place: with the same flags, and the files that they name.",
        "    --image string": f'The image in that manifest. (default "{IMAGE}")',
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the own flags out, and convert pflag's syntax to click's."""
        rest: list[str] = []
        words = iter(args)
        for word in words:
            name, equals, value = _split(word)
            if name in _OWN:
                ctx.meta[_OWN[name]] = value if equals else next(words, "")
            else:
                rest.append(word)
        return super().parse_args(ctx, rest)


def _split(word: str) -> tuple[str, str, str]:
    """Return the flag, a sign =, and the value; ``-ojson`` is ``-o=json``, as pflag."""
    name, equals, value = word.partition("=")
    if name not in _OWN and word.startswith("-o") and len(word) > len("-o"):
        return "-o", "=", word.removeprefix("-o")
    return name, equals, value


def _doctor(**given: tuple[str, ...]) -> None:
    ctx = click.get_current_context()
    for flag, name in _OWN.items():
        if not ctx.meta.get(name, "-"):
            raise Failure([f"{flag}: needs a value"])
    pod = _static_pod(ctx)
    values, problems = given_values(given), list(ctx.meta[PROBLEMS])
    if pod is not None:
        values = {**pod.flags_on_the_node(), **values}
        problems += (f"{pod.path}: unknown flag: {each}" for each in pod.given.unknown)
    config = make_config(values, problems)
    output = ctx.meta.get("output", _DEFAULTS["output"])
    if output not in _FORMATS:
        raise Failure([f"--output: must be text or json, not {output!r}"])
    seconds = _seconds(ctx.meta.get("timeout", _DEFAULTS["timeout"]))
    written = [_written(ctx, pod)] if pod is not None and "written" in ctx.meta else []
    # The kubelet makes the pod of a manifest again, also if this process runs in a pod.
    examined = _examine(config, seconds, None if pod else own_pod())
    results = [*run(examined), *written]
    click.echo(_FORMATS[output](results), nl=False)
    ctx.exit(1 if finding.has_errors(results) else 0)


def _static_pod(ctx: click.Context) -> StaticPod | None:
    """Return the static pod whose manifest is named, `None` without one."""
    if "manifest" in ctx.meta:
        try:
            return StaticPod(Path(ctx.meta["manifest"]), registry().flags)
        except StaticPodError as problem:
            raise Failure([f"--from-manifest: {problem}"]) from None
    for flag, name in _OWN.items():
        if name in ("written", "image") and name in ctx.meta:
            raise Failure([f"{flag}: needs --from-manifest, whose flags it keeps"])
    return None


def _written(ctx: click.Context, pod: StaticPod) -> finding.Result:
    """Write the manifest of this program; return the finding about it."""
    path = Path(ctx.meta["written"])
    # The manifest may be a link; the kubelet follows it.
    folders = (pod.path.parent.resolve(), pod.path.resolve().parent)
    if path.parent.resolve() in folders:
        msg = (
            f"--write-manifest: {path}: the kubelet runs each file of that folder; "
            "write it to another one, and move it there for the swap"
        )
        raise Failure([msg])
    try:
        document = pod.ours(ctx.meta.get("image", IMAGE))
        text = yaml.safe_dump(document, sort_keys=False)
        # As kubeadm does: only root may read it.
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(text)
    except StaticPodError as problem:
        raise Failure([f"--write-manifest: {problem}"]) from None
    except OSError as problem:
        why = f"--write-manifest: {path}: {problem.strerror}"
        if isinstance(problem, FileExistsError):
            why += "; delete it, or name another file"
        raise Failure([why]) from None
    text = f"{path} is the static pod of this program, with the flags of {pod.path}"
    return finding.Result("manifest", (finding.ok(text),))


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as problem:
        message = f"--check-timeout: invalid argument: {problem}"
        raise Failure([message]) from None
    if seconds <= 0:
        raise Failure([f"--check-timeout: must be longer than 0s, it is {text}"])
    return seconds


async def _examine(
    config: Config, seconds: float, pod: OwnPod | None
) -> list[finding.Result]:
    """Return the findings of all checks; unusable credentials are one error."""
    clock, logger = SystemClock(), silent_logger()
    async with AsyncExitStack() as stack:
        stack.enter_context(library_logs(logger))
        try:
            connections = await connect(
                config, clock, logger, Opener(stack, InMainLoop())
            )
        except ConfigError as problem:
            found = finding.Result("credentials", (finding.error(str(problem)),))
            local = await finding.run_checks(local_checks(config, clock), seconds)
            return [found, *local]
        examined = Examination(registry(), config, connections, clock, pod)
        return await examine(examined, seconds)


def own_pod() -> OwnPod | None:
    """Return the pod of this process, `None` outside of a cluster.

    ``POD_NAMESPACE`` and ``POD_NAME`` say it for a pod in the network of its node,
    whose host name is the node's.
    """
    namespace, name = os.environ.get("POD_NAMESPACE"), os.environ.get("POD_NAME")
    if namespace and name:
        return OwnPod(namespace, name)
    if not is_in_cluster():
        return None
    try:
        namespace = (Path(SERVICE_ACCOUNT) / "namespace").read_text().strip()
    except OSError:
        return None
    return OwnPod(namespace, name or socket.gethostname())


doctor_command = DoctorCommand(
    "doctor",
    callback=_doctor,
    help="Say before a swap what would not work on the cluster, and why.",
)
