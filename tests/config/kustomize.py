"""Stands for the one command of kustomize that kubectl does not have.

``python -m tests.config.kustomize edit set image NAME=NEW_NAME:TAG``, in a directory
with a kustomization.
"""

import sys
from pathlib import Path

import yaml


def set_image(argument: str) -> None:
    """Write an image into the kustomization of this directory, as kustomize does."""
    name, _, image = argument.partition("=")
    new_name, _, tag = image.rpartition(":")
    path = Path("kustomization.yaml")
    document = yaml.safe_load(path.read_text())
    others = [each for each in document.get("images", ()) if each["name"] != name]
    entry = {"name": name, "newName": new_name, "newTag": tag}
    document["images"] = [*others, entry]
    path.write_text(yaml.safe_dump(document, sort_keys=False))


if __name__ == "__main__":
    if sys.argv[1:4] != ["edit", "set", "image"]:
        sys.exit(f"unknown command: {sys.argv[1:]}")
    set_image(sys.argv[4])
