"""Files of keys and certificates; checks run together."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from controller_manager.client.rest.errors import TransportError
from controller_manager.doctor import finding
from tests.controllers.certificates.authorities import new_key, pem_of, write_authority
from tests.doctor.patients import Patient

pytestmark = pytest.mark.looptime


@pytest.fixture
async def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)


def remove(path: str) -> None:
    Path(path).unlink()


def write(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)


async def test_a_file_that_is_missing_is_one_line(patient: Patient) -> None:
    remove(patient.key)
    assert await patient.local_faults() == [
        (
            f"error keys --cluster-signing-key-file: {patient.key}: No such file or "
            f"directory (as uid {os.getuid()}); mend: mount the file, or name another "
            "one"
        )
    ]


async def test_a_file_that_may_not_be_read_is_one_line(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the user that this process is."""
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if str(path) == patient.key:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert await patient.local_faults() == [
        (
            f"error keys --cluster-signing-key-file: {patient.key}: Permission denied "
            f"(as uid {os.getuid()}); mend: let this user read it: fsGroup for a "
            "Secret, or chgrp and chmod"
        )
    ]


async def test_a_pipe_is_no_file(patient: Patient) -> None:
    """No process writes to it, so to read it would never end."""
    remove(patient.key)
    os.mkfifo(patient.key)
    (line,) = await patient.local_faults()
    assert line.startswith(
        f"error keys --cluster-signing-key-file: {patient.key}: is no file"
    )


async def test_a_key_of_another_certificate_is_one_line(patient: Patient) -> None:
    write(patient.key, pem_of(new_key()))
    assert await patient.local_faults() == [
        (
            f"error keys --cluster-signing-cert-file: {patient.certificate}: its key "
            f"is not the one of --cluster-signing-key-file: {patient.key}; mend: give "
            "a certificate and a key that belong together"
        )
    ]


async def test_a_file_without_a_key_is_one_line(patient: Patient) -> None:
    shutil.copy(patient.certificate, patient.key)
    assert await patient.local_faults() == [
        (
            f"error keys --cluster-signing-key-file: {patient.key}: no private key "
            "without a password is in it"
        )
    ]


async def test_a_file_without_a_certificate_is_one_line(patient: Patient) -> None:
    write(patient.certificate, b"-----BEGIN CERTIFICATE-----\nno\n")
    assert await patient.local_faults() == [
        (
            f"error keys --cluster-signing-cert-file: {patient.certificate}: no "
            "certificate that can be read is in it"
        )
    ]


async def test_ending_certificates_are_told(patient: Patient, tmp_path: Path) -> None:
    file = f"--cluster-signing-cert-file: {patient.certificate}"
    now = patient.cluster.clock.now()
    for days, line in (
        (31, ""),
        (
            29,
            (
                "warning keys {file}: the certificate of 'CN=test-ca' expires on "
                "{day}; mend: renew it"
            ),
        ),
        (
            -1,
            (
                "error keys {file}: the certificate of 'CN=test-ca' expired on "
                "{day}; mend: renew it, for example with kubeadm certs renew"
            ),
        ),
    ):
        ends = now + timedelta(days=days)
        write_authority(tmp_path, ends=ends)
        lines = [line.format(file=file, day=f"{ends:%Y-%m-%d}")] if line else []
        assert await patient.local_faults() == lines


async def well() -> Sequence[finding.Finding]:
    await asyncio.sleep(9)
    return [finding.ok("fine")]


async def hanging() -> Sequence[finding.Finding]:
    await asyncio.Event().wait()
    return []


async def refused() -> Sequence[finding.Finding]:
    msg = "GET /version: cannot connect"
    raise TransportError(msg)


async def broken() -> Sequence[finding.Finding]:
    msg = "two\nlines"
    raise KeyError(msg)


async def test_a_check_that_hangs_or_fails_fails_alone() -> None:
    """All take as long as the slowest one, and no longer than the limit."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    checks = (well, hanging, refused, broken, well)
    found = await finding.run_checks(
        [finding.Check(each.__name__, each) for each in checks], 10
    )
    assert loop.time() - before == 10
    assert found == [
        finding.Result("well", (finding.ok("fine"),)),
        finding.Result(
            "hanging",
            (
                finding.error(
                    "no result within 10 s",
                    "look why the API server is slow, or give a longer --check-timeout",
                ),
            ),
        ),
        finding.Result("refused", (finding.error("GET /version: cannot connect"),)),
        finding.Result(
            "broken",
            (
                finding.error(
                    "the check itself failed: KeyError: 'two\\nlines'",
                    "please report it",
                ),
            ),
        ),
        finding.Result("well", (finding.ok("fine"),)),
    ]


def test_the_report_is_aligned() -> None:
    results = [
        finding.Result("lease", (finding.ok("free"),)),
        finding.Result(
            "other managers",
            (finding.error("two of them", "stop one"), finding.ok("one")),
        ),
    ]
    assert finding.as_text(results) == (
        "ok       lease           free\n"
        "error    other managers  two of them; mend: stop one\n"
        "ok       other managers  one\n"
    )
