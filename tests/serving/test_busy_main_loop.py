"""The endpoints while the main loop is busy."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from controller_manager.serving.health import HealthCheck
from controller_manager.serving.main_loop import MainLoopBusy
from tests.serving.servers import get, serving

AnswerT = TypeVar("AnswerT")
BUSY = "the main event loop has been busy for 3.2 s"


class Main:
    """A main loop that answers at once, or not at all."""

    def __init__(self, *, is_busy: bool = False) -> None:
        self.is_busy = is_busy
        self.answers = 0

    async def ask(self, question: Callable[[], AnswerT], patience: float) -> AnswerT:
        del patience
        if self.is_busy:
            raise MainLoopBusy(BUSY)
        self.answers += 1
        return question()

    def stack(self) -> str:
        return "  in a_long_turn\n"


async def test_probes_show_the_last_answer_and_the_checks_of_their_own_thread() -> None:
    """The lease is lost meanwhile, and the main loop has stalled."""
    main = Main()
    beside: dict[str, HealthCheck] = {"a": lambda: None, "main-loop": lambda: None}
    async with serving(main=main, beside=beside) as url:
        before = await get(f"{url}/livez?verbose")
        main.is_busy = True
        during = await get(f"{url}/livez?verbose")
        beside |= {"a": lambda: "lease lost", "main-loop": lambda: "stalled"}
        failing = await get(f"{url}/livez")
        ready = await get(f"{url}/readyz?verbose")
    shown = "[+]a ok\n[+]b ok\n[+]main-loop ok\nlivez check passed\n"
    assert before == during == (200, shown)
    assert failing == (
        500,
        (
            "[-]a failed: lease lost\n[+]b ok\n[-]main-loop failed: stalled\n"
            "livez check failed\n"
        ),
    )
    # Nothing was known of readiness before.
    assert ready[0] == 500
    assert "main-loop failed: the main event loop has not answered yet" in ready[1]


async def test_metrics_are_shown_with_their_last_values() -> None:
    """A scrape that fails would hide the metric that tells of the stall."""
    main = Main()
    async with serving(main=main) as url:
        first = await get(f"{url}/metrics")
        main.is_busy = True
        second = await get(f"{url}/metrics")
    assert first == second
    assert first[0] == 200
    assert "scrapes 1.0" in first[1]


async def test_a_page_of_the_main_loop_says_that_it_is_busy() -> None:
    """Pages that need only the server are shown."""
    async with serving(main=Main(is_busy=True)) as url:
        page = await get(f"{url}/debug/controllers/some-controller/page")
        tasks = await get(f"{url}/debug/pprof/goroutine")
        settings = await get(f"{url}/configz")
    assert page == (503, f"{BUSY}\n")
    assert tasks[0] == 200
    assert tasks[1].startswith(f"{BUSY}, its stack is:\n  in a_long_turn\n")
    assert "tasks\n\ntask " in tasks[1]
    assert settings[0] == 200


async def test_a_page_is_asked_for_piece_by_piece() -> None:
    """So a long page does not keep the main loop for long."""
    main = Main()

    def page(_: Mapping[str, list[str]]):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return "text/plain", (b"piece\n" for _ in range(10))

    async with serving(main=main, debug={"c": {"page": page}}) as url:
        found = await get(f"{url}/debug/controllers/c/page")
    assert found == (200, "piece\n" * 10)
    assert main.answers > 10
