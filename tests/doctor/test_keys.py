"""Files that flags name: each fault is one line."""

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from tests.controllers.certificates.authorities import new_key, pem_of, write_authority
from tests.doctor.patients import Patient


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
