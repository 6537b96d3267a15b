"""The subcommand that shows the report of a preview that runs."""

import http.client
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click
import msgspec

from controller_manager.client.identity.tls import tls_reason
from controller_manager.preview.report import Report, text_of

from .failure import Failure

_TIMEOUT: Final = 30.0
_DIVERGES: Final = 3
_PATH: Final = "/debug/preview?output=json"


@click.group("preview")
def preview_command() -> None:
    """Ask a daemon that runs with --preview."""


@preview_command.command("report")
@click.option(
    "--server",
    default="https://127.0.0.1:10257",
    show_default=True,
    help="The address of the daemon.",
)
@click.option(
    "--token-file", default="", help="A file with a token of a user who may read it."
)
@click.option(
    "--certificate-authority",
    default="",
    help="A file with the authority of the daemon's certificate.",
)
@click.option("--client-certificate", default="", help="A file with a certificate.")
@click.option("--client-key", default="", help="A file with its key.")
@click.option(
    "--insecure-skip-tls-verify",
    is_flag=True,
    help="Do not check the daemon's certificate.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="The format of the report.",
)
@click.pass_context
def _report(
    ctx: click.Context,
    *,
    server: str,
    token_file: str,
    certificate_authority: str,
    client_certificate: str,
    client_key: str,
    insecure_skip_tls_verify: bool,
    output: str,
) -> None:
    """Show what the preview and the manager in charge do differently.

    The exit code is 0 without divergences, and 3 with some.
    """
    context = _context(
        certificate_authority, client_certificate, client_key, insecure_skip_tls_verify
    )
    body = _read(server, context, _token(token_file))
    try:
        report = msgspec.json.decode(body, type=Report)
    except msgspec.DecodeError as error:
        raise Failure([f"{server}: the answer is no report: {error}"]) from None
    click.echo(text_of(report) if output == "text" else body.decode(), nl=False)
    ctx.exit(_DIVERGES if report.divergences else 0)


def _context(
    authority: str,
    certificate: str,
    key: str,
    is_insecure: bool,  # noqa: FBT001 - the flag's value
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except OSError as error:
        files = ", ".join(filter(None, (authority, certificate, key)))
        raise Failure([f"{files}: {error.strerror or tls_reason(error)}"]) from None
    if is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _token(path: str) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError as error:
        raise Failure([f"--token-file: {path}: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise Failure([f"--token-file: {path}: it is no token"]) from None


def _read(server: str, context: ssl.SSLContext, token: str) -> bytes:
    """Return the report as JSON; raises Failure."""
    parts = urlsplit(server)
    if parts.scheme != "https" or not parts.hostname:
        raise Failure([f"--server: must be https://HOST:PORT, not {server!r}"])
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection = http.client.HTTPSConnection(
        parts.hostname, parts.port, timeout=_TIMEOUT, context=context
    )
    try:
        connection.request("GET", _PATH, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        why = tls_reason(error) if isinstance(error, ssl.SSLError) else str(error)
        raise Failure([f"{server}: no answer: {why}"]) from None
    finally:
        connection.close()
    if answer.status == http.client.NOT_FOUND:
        raise Failure([f"{server}: this daemon does not run with --preview"])
    if answer.status != http.client.OK:
        why = body.decode(errors="replace").strip().partition("\n")[0]
        raise Failure([f"{server}: answered {answer.status}: {why}"])
    return body
