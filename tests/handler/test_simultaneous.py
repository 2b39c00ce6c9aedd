"""Many deliveries of one run at the same moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.deliveries import Delivery
from tests.support.handler import Handler
from tests.support.lab import Lab

TIMES = 20


@pytest.fixture(scope="module")
def two_handlers(lab: Lab) -> Iterator[tuple[Handler, Handler]]:
    """Yield two processes with 25 threads each, so that 50 deliveries are worked on at once."""
    with lab.handler(threads=25) as one, lab.handler(threads=25) as other:
        yield one, other


@pytest.mark.parametrize("count", [16, 50])
def test_of_simultaneous_deliveries_one_runs(
    count: int, two_handlers: tuple[Handler, Handler], lab: Lab
) -> None:
    with ThreadPoolExecutor(count) as pool:
        for _ in range(TIMES):
            delivery = Delivery("count")
            tasks = [
                pool.submit(two_handlers[number % 2].post, delivery) for number in range(count)
            ]
            answers = Counter((each.result().status, each.result().outcome) for each in tasks)

            assert answers.pop((200, "completed")) == 1
            assert set(answers) <= {(200, "duplicate"), (409, "in_progress")}
            assert len(lab.effects(delivery.key.id)) == 1
