"""The settings of a cluster, each declared once.

The command has a flag for a setting, the pytest plugin an option, and a program gives
it as an argument. The plugin imports this module before a test asks for a cluster, and
the main help shows the flags: so it imports nothing that is not in Python.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args

T = TypeVar("T")

Names = tuple[str, ...]
Paths = tuple[Path | str, ...]
File = Path | str | None

_MOST_PORT: Final = 65535


class Limits(NamedTuple):
    """The least and the most value; the command lets times be longer."""

    least: int
    most: int
    is_time: bool = False


class Flag(NamedTuple):
    """The flag of the command; without a `default`, that of the setting holds."""

    help: str
    default: Any = None
    metavar: str | None = None
    names: tuple[str, ...] = ()
    is_optional: bool = False
    """True if the command chooses when no value is given."""


class Option(NamedTuple):
    """The option of the pytest plugin, with the default as its help shows it."""

    help: str
    default: str | None = None
    metavar: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings of API server and nodes; times are in seconds.

    Another program may play the provisioner, the attacher or the resizer of volumes.
    """

    port: Annotated[
        int,
        Limits(0, _MOST_PORT),
        Flag(
            "Port of the API server, on the loopback interface; 0 chooses a free port.",
            6443,
        ),
        Option("Port of the API server; 0 for any.", metavar="PORT"),
    ] = 0

    nodes: Annotated[
        int,
        Limits(0, 5000),
        Flag("Number of nodes; with 0, pods stay pending."),
        Option("Number of nodes."),
    ] = 3

    pod_start_delay: Annotated[
        float,
        Limits(0, 3600, is_time=True),
        Flag("Time from a pod's scheduling until it is Running and Ready.", "1s"),
        Option("Time until a scheduled pod is Ready."),
    ] = 0.1

    grace_scale: Annotated[
        float,
        Limits(0, 1),
        Flag("Factor by which the nodes shorten pods' termination grace periods."),
        Option("Factor by which nodes shorten termination grace periods."),
    ] = 1.0

    without_provisioner: Annotated[
        bool, Flag("Make and delete no volumes for claims.")
    ] = False

    without_attacher: Annotated[
        bool, Flag("Attach no volumes to nodes, and detach none.")
    ] = False

    without_resizer: Annotated[
        bool, Flag("Leave volumes as they are when claims ask for more.")
    ] = False

    rbac: Annotated[
        bool,
        Flag(
            "Authorize requests by roles: the administrator may do everything, each "
            "controller what its bootstrap role of upstream allows."
        ),
        Option("Let users do only what roles allow."),
    ] = False

    service_cluster_ip_range: Annotated[
        str,
        Flag(
            "The ranges of the services' addresses: one range, or one of each family.",
            metavar="CIDR[,CIDR]",
        ),
    ] = "10.96.0.0/12"


@dataclass(frozen=True, kw_only=True)
class Settings(ServerSettings):
    """The settings of a cluster with its controllers."""

    controllers: Annotated[
        Names,
        Option("Controllers that run, as in --controllers of the manager, or none."),
    ] = ("*",)
    """An empty tuple runs none."""

    data: Annotated[
        File,
        Flag(
            "Keep the state in this file, from which the cluster goes on when it is "
            "started again; without it, the state is in memory."
        ),
        Option(
            "File in which the cluster keeps its state, else in memory.", "in memory"
        ),
    ] = None

    manifests: Annotated[
        Paths,
        Flag(
            "Create the objects of this YAML file, or of the files in this directory; "
            "may be given more than once."
        ),
        Option(
            "YAML files, or directories of them, whose objects exist from the start."
        ),
    ] = ()

    enable_admission_plugins: Annotated[
        Names,
        Flag(
            "Admission plugins that are on besides those that upstream has on by "
            "default.",
            metavar="NAME,...",
        ),
        Option("Admission plugins that are on besides those that are on by default."),
    ] = ()

    disable_admission_plugins: Annotated[
        Names,
        Flag(
            "Admission plugins that are off although upstream has them on by default.",
            metavar="NAME,...",
        ),
        Option("Admission plugins that are off although they are on by default."),
    ] = ()

    feature_gates: Annotated[
        Names,
        Flag(
            "Feature gates of the API server and of the controllers, as upstream.",
            metavar="NAME=BOOL,...",
        ),
        Option(
            "Feature gates of API server and controllers, as NAME=BOOL,...",
            "upstream's",
        ),
    ] = ()

    verbosity: Annotated[
        int,
        Limits(-1, 10),
        Flag(
            "Log verbosity; 0 if not given, and with a COMMAND -1, which logs nothing.",
            names=("-v", "--v"),
            is_optional=True,
        ),
        Option("Verbosity of the cluster's log on standard error; -1 logs nothing."),
    ] = -1


class Setting(NamedTuple):
    """A declared setting, and where it is offered."""

    name: str
    type: Any
    default: Any
    limits: Limits | None
    flag: Flag | None
    option: Option | None


def settings_of(declared: type[Settings]) -> tuple[Setting, ...]:
    """Return the settings of a class, in the order of their declaration."""
    return tuple(
        _setting(each.name, each.default, *get_args(each.type))
        for each in fields(declared)
    )


def _setting(name: str, default: Any, kind: Any, *places: Any) -> Setting:
    def place(wanted: type[T]) -> T | None:
        return next((each for each in places if isinstance(each, wanted)), None)

    return Setting(name, kind, default, place(Limits), place(Flag), place(Option))


def missing_extra(error: ImportError) -> str:
    """Return one line that says how to install the extra, for a missing package."""
    return (
        f"the development cluster needs the package {error.name}; install it in a "
        "checkout of this project with: pip install '.[devcluster]'"
    )
