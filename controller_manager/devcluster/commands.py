"""The work of the subcommands ``devcluster`` and ``demo``."""

import asyncio
import gc
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console

from controller_manager.cli.subcommands import Explain
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger
from controller_manager.options.config import Config
from controller_manager.runtime.registry import Registry
from controller_manager.version import COMMAND_USER_AGENT

from .admission.plugins import ON_BY_DEFAULT
from .child import check_command, run_command
from .cluster import ClusterOptions, DevCluster, check_kubeconfig, remove_kubeconfig
from .embedded import controllers_over_https, embedded_config
from .manifests import Manifest, parted, read_manifests


def demo_config(build: Registry) -> Config:
    """Return the config of the demo: its autoscaler looks at the load each second."""
    period = "horizontal-pod-autoscaler-sync-period"
    return embedded_config(build, 0, more={period: "1s"})


async def run_devcluster(
    options: ClusterOptions,
    config: Config,
    logger: Logger,
    *,
    kubeconfig: Path | None,
    manifests: Sequence[Path],
    with_controllers: bool,
    command: Sequence[str] = (),
) -> int:
    """Run a cluster with the objects of `manifests` in it; return an exit code.

    The controllers start once the objects exist; only pods wait for the controllers.
    It runs until it is interrupted. With a `command` it runs until the command ends:
    the command has the kubeconfig in KUBECONFIG, and only the command prints. Raises
    CommandError, ManifestError and KubeconfigError, before anything runs, if the
    program does not exist, or a file cannot be read or written.
    """
    console = Console(stderr=True, quiet=bool(command))
    log_loop_errors(logger)
    if command:
        check_command(command)
    if kubeconfig is not None:
        check_kubeconfig(kubeconfig)
    before, after = parted(read_manifests(manifests))

    def report(manifest: Manifest) -> None:
        console.print(f"{manifest.kind.singular}/{manifest.name} created")

    async with AsyncExitStack() as stack:
        stack.enter_context(_rare_collections())
        cluster = await stack.enter_async_context(
            DevCluster(options, SystemClock(), logger)
        )
        if kubeconfig is not None:
            # Only once we listen: a cluster that has our port may own the file.
            remove_kubeconfig(kubeconfig)
        console.print(f"API server at {cluster.url}", highlight=False)
        await cluster.create(before, report)
        if with_controllers:
            await stack.enter_async_context(
                controllers_over_https(cluster, config, logger)
            )
        await cluster.create(after, report)
        if command:
            return await _run_command(cluster, command, kubeconfig, stack)
        await _run_until_interrupted(cluster, kubeconfig, stack, console)
    return 0


async def _run_command(
    cluster: DevCluster,
    command: Sequence[str],
    kubeconfig: Path | None,
    stack: AsyncExitStack,
) -> int:
    if kubeconfig is None:
        directory = stack.enter_context(TemporaryDirectory(prefix="devcluster-"))
        kubeconfig = Path(directory) / "kubeconfig"
    cluster.write_kubeconfig(kubeconfig)
    stack.callback(kubeconfig.unlink, missing_ok=True)
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig.absolute())}
    return await run_command(command, environment)


async def _run_until_interrupted(
    cluster: DevCluster,
    kubeconfig: Path | None,
    stack: AsyncExitStack,
    console: Console,
) -> None:
    # Entered before the file is written, so that the file is always removed.
    interrupted = _interrupt_event()
    if kubeconfig is not None:
        cluster.write_kubeconfig(kubeconfig)
        stack.callback(kubeconfig.unlink, missing_ok=True)
        console.print(
            f"kubectl --kubeconfig {kubeconfig} get deployments\n"
            f"controller-manager explain --kubeconfig {kubeconfig} --all",
            highlight=False,
        )
    console.print("Running; Ctrl-C stops it.", highlight=False)
    await interrupted.wait()
    console.print("Stopping.", highlight=False)


def _interrupt_event() -> asyncio.Event:
    """Return an event that is set when the program is interrupted."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


async def run_demo(
    build: Registry, logger: Logger, explain: Explain | None = None
) -> None:
    """Run a cluster with its controllers, play the demo, and print what happened.

    With `explain`, the demo shows why a broken rollout is stuck.
    """
    # 40 MB and half a second, which no controller notices before it runs.
    from .demo.demo import Demo  # noqa: PLC0415

    console = Console()
    log_loop_errors(logger)
    options = ClusterOptions(
        pod_start_delay=0.6,
        grace_scale=0.05,
        admission_plugins=ON_BY_DEFAULT,
        build=build,
    )
    async with DevCluster(options, SystemClock()) as cluster:
        console.print(
            f"A cluster of {options.nodes} nodes at {cluster.url}", highlight=False
        )
        async with controllers_over_https(cluster, demo_config(build), logger) as _:
            transport = HTTPTransport(cluster.credentials(), COMMAND_USER_AGENT)
            try:
                summary = await Demo(transport, SystemClock(), console, explain).run()
            finally:
                await transport.close()
    console.print("\n[bold]What happened[/bold]")
    for title, seconds in summary.steps:
        console.print(f"  {seconds:5.1f}s  {title}", highlight=False)
    total = sum(seconds for _, seconds in summary.steps)
    console.print(f"  {total:5.1f}s  altogether", highlight=False)
    console.print(
        "\nGo on with a cluster of your own:\n"
        "  controller-manager devcluster -- bash\n"
        "  kubectl create deployment web --image=nginx --replicas=3\n"
        "  kubectl get deployments --watch\n"
        "  controller-manager explain deploy/web",
        highlight=False,
        soft_wrap=True,
    )


_THRESHOLDS: Final = (20_000, 1, 25)
"""Python's are 700, 10, 10: it would look at all objects seven times as often.

Every second collection takes the objects of the last one, too. So it looks at a new
object once or twice, and at none for long.
"""


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often while entered, in a process that stores objects.

    Stored objects stay, and have no cycles. The search for garbage among them took a
    seventh of the CPU time in which pods were created.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
