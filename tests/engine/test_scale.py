"""How a stack grows with its jobs."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.support.engine import IMAGE, Engine, Result

Preview = Callable[..., tuple[Result, int]]


def settings(jobs: int, services: int) -> dict[str, Any]:
    """Return the configuration of so many jobs, spread over so many services."""
    names = [f"worker{number}" for number in range(services)]
    return {
        "image": IMAGE,
        "services": {name: {} for name in names},
        "jobs": [
            {
                "name": f"job-{number}",
                "service": names[number % services],
                "schedule": f"{number % 60} {number % 24} * * *",
            }
            for number in range(jobs)
        ],
    }


def types(result: Result) -> Counter[str]:
    return Counter(step.type for step in result.resources)


@pytest.fixture(scope="module")
def preview(tmp_path_factory: pytest.TempPathFactory) -> Preview:
    """Previews so many jobs on so many services; returns the result and the calls that it took."""

    @cache
    def run(jobs: int, services: int = 1) -> tuple[Result, int]:
        engine = Engine(tmp_path_factory.mktemp("scale"))
        result = engine.example("dev", settings(jobs, services)).preview().raise_for_status()
        return result, len(engine.calls())

    return run


def test_ninety_more_jobs_add_ninety_resources_and_nothing_else(preview: Preview) -> None:
    ten, _ = preview(10)
    hundred, _ = preview(100)

    assert types(hundred) - types(ten) == Counter({"gcp:cloudscheduler/job:Job": 90})


def test_calls_to_the_provider_grow_in_step_with_the_jobs(preview: Preview) -> None:
    """So does the time; `python -m bench.preview` measures it."""
    ten, fifty, hundred = (preview(jobs)[1] for jobs in (10, 50, 100))

    assert (hundred - fifty) * 40 == (fifty - ten) * 50


def test_jobs_spread_over_two_services_share_all_but_the_services(preview: Preview) -> None:
    one, _ = preview(10)
    two, _ = preview(10, services=2)

    assert types(two) - types(one) == Counter(
        {
            "gcp:cloudrunv2/service:Service": 1,
            "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": 1,
            "gcp:projects/iAMMember:IAMMember": 1,
            "gcp:serviceaccount/account:Account": 1,
        }
    )
    targets = Counter(step.inputs["httpTarget"]["uri"] for step in two.of("job:Job"))
    assert sorted(targets.values()) == [5, 5]
