"""Runs the command of a pod's manifest as a container runtime would.

The process sees a root that is read-only, and of the node only the files that the pod
mounts, at their real paths and with their real owners and modes. It has the user of the
manifest, and no capability. The interpreter stands for the image.
"""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from controller_manager.api.json_objects import JSON

_REPOSITORY: Final = Path(__file__).parents[2]
_SHOWN: Final = (_REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))
"""The directories of the program."""

_OF_THE_IMAGE: Final = ("hosts", "nsswitch.conf", "passwd", "group", "ssl", "localtime")
"""The files of ``/etc`` that an image has."""

_TOOLS: Final = ("unshare", "mount", "chroot", "setpriv")


@cache
def why_not() -> str:
    """Return why processes cannot be run so here, "" if they can."""
    if os.geteuid() != 0:
        return "needs root, to give files and processes the owners that kubeadm does"
    if missing := [each for each in _TOOLS if shutil.which(each) is None]:
        return f"needs {', '.join(missing)}"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        check=False,
        capture_output=True,
    )
    return "" if tried.returncode == 0 else "may not mount anything"


def sandboxed(
    pod: JSON, node: Path, mounts: Path, command: Sequence[str], user: int | None = None
) -> list[str]:
    """Return the command line that runs `command` as the only container of `pod`.

    `node` is where the files of the node are, `mounts` an empty directory. `user`
    replaces the user of the manifest.
    """
    (container,) = pod["spec"]["containers"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    user = security["runAsUser"] if user is None else user
    script = "\n".join(["set -e", *_mounted(pod, container, node, mounts)])
    confined = [
        *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"),
        *("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", *command),
    ]
    script += f"\nexec chroot {shlex.quote(str(mounts))} {shlex.join(confined)}"
    return ["unshare", "--mount", "--propagation=private", "sh", "-c", script]


def program(arguments: Sequence[str]) -> list[str]:
    """Return the command line of the daemon, which is a module here."""
    environment = [f"PYTHONPATH={_REPOSITORY}", "PYTHONUNBUFFERED=1"]
    module = ["-m", "controller_manager", *arguments]
    return ["env", *environment, sys.executable, *module]


def _mounted(pod: JSON, container: JSON, node: Path, root: Path) -> Iterator[str]:
    yield from _read_only(Path("/"), root)
    yield from _interpreter(root)
    yield f"mount --rbind /proc {root}/proc"
    yield f"mount --rbind /dev {root}/dev"
    yield f"mount -t tmpfs tmpfs {root}/etc"
    for name in _OF_THE_IMAGE:
        yield f"cp -a /etc/{name} {root}/etc/{name} 2>/dev/null || true"
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    later = []
    for mount in container["volumeMounts"]:
        volume, target = volumes[mount["name"]], f"{root}{mount['mountPath']}"
        if "emptyDir" in volume:
            size = volume["emptyDir"]["sizeLimit"].removesuffix("i").lower()
            # The files of the node may be below: it is mounted last.
            later.append(f"mount -t tmpfs -o mode=1777,size={size} tmpfs {target}")
            continue
        source = node / volume["hostPath"]["path"].lstrip("/")
        assert volume["hostPath"]["type"] == "File"
        assert mount["readOnly"] is True
        yield f"test -f {source}"
        yield f"mkdir -p {Path(target).parent} && touch {target}"
        yield from _read_only(source, Path(target))
    yield f"mount -o remount,ro {root}/etc"
    yield from later
    covered = [
        Path(mount["mountPath"])
        for mount in container["volumeMounts"]
        if "emptyDir" in volumes[mount["name"]]
    ]
    for each in _SHOWN:  # a checkout below /tmp, for instance
        if any(directory in each.parents for directory in covered):
            yield from _show(each, root)


def _interpreter(root: Path) -> Iterator[str]:
    """Yield the commands that show the program, also below a home that is private."""
    for top in sorted({each.parents[-2] for each in _SHOWN}):
        if not top.stat().st_mode & stat.S_IXOTH:
            yield f"mount -t tmpfs -o mode=755 tmpfs {root}{top}"
    for each in _SHOWN:
        yield from _show(each, root)


def _show(directory: Path, root: Path) -> Iterator[str]:
    yield f"mkdir -p {root}{directory}"
    yield from _read_only(directory, Path(f"{root}{directory}"))


def _read_only(source: Path, target: Path) -> Iterator[str]:
    yield f"mount --bind {source} {target}"
    yield f"mount -o remount,bind,ro {target}"
