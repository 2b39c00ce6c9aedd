"""The worked example of `examples/`: an order that is booked once, through three hops.

Cloud Scheduler calls the proxy, the proxy starts a workflow, the workflow calls a function, and
each of them may do so twice. `examples: true` adds what stands here to a stack's own services and
jobs.
"""

from datetime import timedelta
from pathlib import Path

from infra import timing
from infra.cron import Schedule
from infra.model import PROXY, PROXY_TIMING, Job, Service, Workflow
from infra.timing import Timing

BOOKING = "booking"
"""The guarded function's service. The same image as the others, with another function in it."""

WORKFLOW = "workflow"
"""The account that the workflow calls the function with."""

NAME = "example"
"""The workflow and the job."""

SOURCE = Path(__file__).resolve().parent.parent / "examples" / "workflow.yaml"


def service() -> Service:
    """Return the service of the guarded function: as long as the workflow waits for an answer."""
    return Service(
        BOOKING,
        timing=Timing(timedelta(seconds=60)),
        max_instances=2,
        command=("functions-framework", "--source", "booking.py", "--target", "book"),
    )


def job(workflow: str, url: str) -> Job:
    """Return the job that starts the workflow.

    Parameters
    ----------
    workflow
        The workflow's full name.
    url
        The guarded function's.
    """
    return Job(
        name=NAME,
        schedule=Schedule("0 * * * *", "Etc/UTC"),
        function=NAME,
        timing=PROXY_TIMING,
        retry=timing.default_retry(PROXY_TIMING),
        service=PROXY,
        start=Workflow(workflow, {"url": url, "account": NAME, "cents": 100}),
        app_engine=None,
        body=None,
        headers={},
        paused=False,
    )
