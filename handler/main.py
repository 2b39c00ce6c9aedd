"""The entry of the deployed service: one HTTP function, `handle`, for every delivery."""

import os
import signal

import events  # noqa: F401  (registers the event handlers)
import functions_framework
import jobs  # noqa: F401  (registers the jobs)
from flask import Request, Response
from once import logs
from once.service import Service
from once.settings import load


def told_to_stop() -> bool:
    """Tell whether the gunicorn worker that serves this process has had its SIGTERM.

    gunicorn installs its own signal handler after this module was loaded, so it cannot be had
    from here; but the handler is a method of the worker, and the worker knows.
    """
    worker = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return not getattr(worker, "alive", True)


logs.set_up()
service = Service(load(os.environ), stopping=told_to_stop)


@functions_framework.http
def handle(request: Request) -> Response:
    """Answer one delivery of Cloud Scheduler, Pub/Sub or Eventarc."""
    answer = service.deliver(request.method, dict(request.headers), request.get_data())
    return Response(answer.body, answer.status, answer.headers)
