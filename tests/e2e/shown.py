"""Objects that kubectl creates, and its output about them."""

import json
import re
from typing import Any

import yaml

from controller_manager.api.json_objects import JSON
from tests.e2e.clusters import Kubectl, validation


def create(kubectl: Kubectl, *objects: JSON) -> None:
    documents = yaml.safe_dump_all(objects)
    kubectl("create", *validation(), "-f", "-", stdin=documents)


def set_status(kubectl: Kubectl, resource: str, **status: Any) -> None:
    patch = json.dumps({"status": status})
    kubectl("patch", resource, "--subresource=status", "--type=merge", "-p", patch)


def table(kubectl: Kubectl, *arguments: str) -> list[str]:
    """Return the lines of a table; the columns are two spaces apart, ages are AGE."""
    output = kubectl("get", *arguments)
    output = re.sub(r"(?<=\s)\d+s(?=\s)", "AGE", output)
    uid = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    return [
        re.sub(r" {2,}", "  ", re.sub(uid, "UID", line)).rstrip()
        for line in output.splitlines()
    ]


def described(kubectl: Kubectl, *arguments: str) -> list[str]:
    """Return the lines that describe an object, without its namespace and age.

    The columns are two spaces apart.
    """
    output = kubectl("describe", *arguments)
    lines = (re.sub(r" {2,}", "  ", line).rstrip() for line in output.splitlines())
    return [line for line in lines if not line.startswith(("Namespace:", "Creation"))]
