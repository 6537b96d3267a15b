"""The errors of a cluster that a user can correct, in one line."""

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from controller_manager.cli.failure import CommandNotRun, Failure
from controller_manager.devcluster.extra import missing_extra

ResultT = TypeVar("ResultT")


def needs_extra(error: ImportError) -> NoReturn:
    """Raise Failure with the command that installs a missing package."""
    raise Failure([missing_extra(error)])


@contextmanager
def data_failures(prefix: str = "") -> Iterator[None]:
    """Turn errors of files with state into one line; `prefix` names the flag."""
    from controller_manager.devcluster.data.snapshot import DataError  # noqa: PLC0415

    try:
        yield
    except DataError as error:
        raise Failure([f"{prefix}{error}"]) from None


def run_cluster(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a cluster until it ends; raises Failure."""
    # The main help imports this module for the help of the subcommands.
    from controller_manager.cli.daemon import run  # noqa: PLC0415
    from controller_manager.devcluster.child import CommandError  # noqa: PLC0415
    from controller_manager.devcluster.cluster import KubeconfigError  # noqa: PLC0415
    from controller_manager.devcluster.demo.progress import DemoError  # noqa: PLC0415
    from controller_manager.devcluster.kinds.networking.default_cidr import RangeError  # noqa: PLC0415
    from controller_manager.devcluster.manifests import ManifestError  # noqa: PLC0415

    try:
        with data_failures():
            return run(main)
    except CommandError as error:
        raise CommandNotRun([str(error)]) from None
    except (DemoError, KubeconfigError, ManifestError, RangeError) as error:
        raise Failure([str(error)]) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Failure([f"{where}{error.strerror or error}"]) from None
