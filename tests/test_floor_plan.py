"""The files of the controllers have the names of the floor plan."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CONTROLLERS: Final = ROOT / "controller_manager" / "controllers"
PAGE: Final = (ROOT / "docs" / "floor-plan.md").read_text()


def tables() -> dict[str, list[str]]:
    """Return the file names of each table, by the heading above it."""
    found = {}
    for section in re.split(r"\n#+ ", PAGE)[1:]:
        heading, _, text = section.partition("\n")
        found[heading] = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    return found


def users() -> dict[str, set[str]]:
    """Return the controllers, as "area/name", that have a file, by the file's name."""
    found = defaultdict(set)
    for path in CONTROLLERS.glob("*/*/**/*.py"):
        area, controller, *_ = path.relative_to(CONTROLLERS).parts
        found[path.stem].add(f"{area}/{controller}")
    return dict(found)


def areas(controllers: set[str]) -> set[str]:
    """Return the areas of controllers."""
    return {each.partition("/")[0] for each in controllers}


def test_names_that_several_areas_use_have_one_meaning() -> None:
    """They stand in the first table, each once, and each is used."""
    common = tables()["Names that several controllers use"]
    shared = {name for name, found in users().items() if len(areas(found)) > 1}
    assert shared - set(common) == set()
    assert [each for each in common if len(users().get(each, ())) < 2] == []
    assert len(common) == len(set(common))


def test_every_file_name_of_an_area_stands_in_its_table() -> None:
    """The table has the names that only this area uses, sorted."""
    found = tables()
    common = set(found["Names that several controllers use"])
    names = {
        area.name: sorted(
            each
            for each, controllers in users().items()
            if each not in common and areas(controllers) == {area.name}
        )
        for area in CONTROLLERS.iterdir()
        if (area / "__init__.py").exists()
    }
    assert {each: found[each] for each in names} == names
