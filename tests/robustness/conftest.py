"""Figures that a test measures, and a higher limit of open files."""

import resource
import sys
from collections.abc import Iterator

import pytest

_FILES = 4096


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """Collect what a test measures; shown in its output and in JUnit's XML."""
    measured: dict[str, object] = {}
    yield measured
    for name, value in measured.items():
        # The same as record_property, without its warning about XML's newest form.
        request.node.user_properties.append((name, value))
        sys.stdout.write(f"\n{name}: {value}")


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    """Let this process open as many files as the tests need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
