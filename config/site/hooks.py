"""Links that leave docs/ lead to the repository, and examples are shown whole."""

import posixpath
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
_ROOT = Path(__file__).parents[2]

_REFERENCE = """

## Reference

::: controller_manager.sdk

::: controller_manager.testing
"""
"""What mkdocstrings writes below the page of the SDK, from docstrings."""


def on_config(config: Any) -> Any:
    """Put the pages of a directory in the place of its name (a hook of mkdocs)."""
    for section in config.nav:
        ((_, entries),) = section.items()
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                ((title, directory),) = entry.items()
                pages = sorted(Path(config.docs_dir, directory).glob("[!R]*.md"))
                names = [f"{directory}{page.name}" for page in pages]
                entry[title] = [f"{directory}README.md", *names]
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page (a hook of mkdocs).

    A line with nothing but a link to a Python file gets the contents of the file below,
    and the page of the SDK a reference.
    """
    del files
    here = posixpath.dirname(page.file.src_uri)

    def led(link: re.Match[str]) -> str:
        words, target, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(here, target))
        if "://" in target or not path.startswith("../"):
            return link[0]
        path = path.removeprefix("../")
        there = f"{words}({config.repo_url}/blob/main/{path}{anchor})"
        stands_alone = link[0] == link.string[link.start() : link.end()].strip() and (
            f"\n{link[0]}\n" in f"\n{link.string}\n"
        )
        if stands_alone and path.endswith(".py"):
            return f"{there}\n\n```python\n{(_ROOT / path).read_text()}```"
        return there

    linked = _LINK.sub(led, markdown)
    return linked + _REFERENCE if page.file.src_uri == "sdk.md" else linked
