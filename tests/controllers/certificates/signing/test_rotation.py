"""The files of an authority are replaced while they are in use."""

import io
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from controller_manager.controllers.certificates.signing.authority import (
    AuthoritySource,
)
from controller_manager.controllers.certificates.signing.options import AuthorityFiles
from controller_manager.observability.logs import make_logger
from tests.controllers.certificates.authorities import Key, pem_of, write_authority

OLD, NEW = "CN=old", "CN=new"


class Mounted:
    """A directory as a kubelet mounts a secret: its files change at one moment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._versions = 0
        for name in ("ca.crt", "ca.key"):
            (directory / name).symlink_to(f"..data/{name}")

    def put(self, name: str, key: Key | None = None) -> Path:
        """Mount an authority in the place of the one before; return where it is."""
        self._versions += 1
        version = self.directory / f"..version-{self._versions}"
        version.mkdir()
        write_authority(version, key, name)
        link = self.directory / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.directory / "..data")
        return version

    @property
    def files(self) -> AuthorityFiles:
        return AuthorityFiles(
            str(self.directory / "ca.crt"), str(self.directory / "ca.key")
        )


class Watched:
    """A source with its log, which must never have anything of a key."""

    def __init__(self, files: AuthorityFiles) -> None:
        self.log = io.StringIO()
        self._source = AuthoritySource(files, make_logger(stream=self.log))

    def subject(self) -> str:
        """Return whose authority signs now; its key is that of its certificate."""
        authority = self._source.current()
        assert authority.key.public_key() == authority.certificate.public_key()
        return authority.certificate.subject.rfc4514_string()

    def warnings(self) -> int:
        return self.log.getvalue().count("New authority not usable")


def test_a_mounted_secret_is_replaced_at_one_moment(tmp_path: Path) -> None:
    """The links of its files stay, the directory behind them changes."""
    mounted = Mounted(tmp_path)
    mounted.put("old")
    source = Watched(mounted.files)
    assert source.subject() == OLD
    mounted.put("new")
    assert [source.subject() for _ in range(3)] == [NEW] * 3
    assert source.warnings() == 0


def test_files_that_are_read_while_they_are_replaced_do_not_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is read before, the key after: they do not belong together."""
    mounted = Mounted(tmp_path)
    mounted.put("old")
    source = Watched(mounted.files)
    read = Path.read_bytes
    steps = iter([lambda: mounted.put("new")])

    def read_then_replace(path: Path) -> bytes:
        content = read(path)
        next(steps, lambda: None)()
        return content

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read_then_replace)
        assert source.subject() == OLD
    assert source.warnings() == 1
    assert source.subject() == NEW


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_a_half_written_file_does_not_sign(
    tmp_path: Path, name: str, kept: float
) -> None:
    """The last authority does, until the file is whole; a new key never leaks."""
    files = AuthorityFiles(*write_authority(tmp_path, name="old"))
    source = Watched(files)
    key = ec.generate_private_key(ec.SECP256R1())
    write_authority(tmp_path, key, "new")
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(len(whole) * kept)])
    assert source.subject() == OLD
    assert source.warnings() == 1
    (tmp_path / name).write_bytes(whole)
    assert source.subject() == NEW
    lines = pem_of(key).decode().splitlines()[1:-1]
    assert not any(line in source.log.getvalue() for line in lines)


def test_swapped_files_do_not_sign(tmp_path: Path) -> None:
    """The key in the place of the certificate, and the other way round."""
    files = AuthorityFiles(*write_authority(tmp_path, name="old"))
    source = Watched(files)
    certificate, key = (Path(each) for each in (files.certificate, files.key))
    contents = certificate.read_bytes(), key.read_bytes()
    certificate.write_bytes(contents[1])
    key.write_bytes(contents[0])
    assert source.subject() == OLD
    assert source.warnings() == 1
    assert all(
        line not in source.log.getvalue()
        for line in contents[1].decode().splitlines()[1:-1]
    )


@pytest.mark.parametrize("change", ["gone", "directory", "unreadable"])
def test_files_that_cannot_be_read_do_not_sign(tmp_path: Path, change: str) -> None:
    """They are there again later."""
    files = AuthorityFiles(*write_authority(tmp_path, name="old"))
    source = Watched(files)
    key = Path(files.key)
    key.unlink()
    if change == "directory":
        key.mkdir()
    elif change == "unreadable":
        key.symlink_to(key)
    assert source.subject() == OLD
    assert source.warnings() == 1
    if change == "directory":
        key.rmdir()
    elif change == "unreadable":
        key.unlink()
    write_authority(tmp_path, name="new")
    assert source.subject() == NEW
