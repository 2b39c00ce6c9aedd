"""The entry of the deployed service: one HTTP function, `handle`, for every delivery."""

import gc
import os

gc.disable()  # until all is loaded: imports make no garbage, and looking for it takes time

import events  # noqa: F401  (registers the event handlers)
import functions_framework
import jobs  # noqa: F401  (registers the jobs)
from flask import Request, Response
from once import logs
from once.service import Service
from once.settings import load
from once.stopping import told_to_stop

logs.set_up()
settings = load(os.environ)
service = Service(settings, stopping=told_to_stop)
gc.freeze()  # nor does a delivery look through it again
gc.enable()
logs.LOG.info("started: records in %s, %s", settings.store, settings.durations)


@functions_framework.http
def handle(request: Request) -> Response:
    """Answer one delivery of Cloud Scheduler, Pub/Sub or Eventarc."""
    answer = service.deliver(request.method, dict(request.headers), request.get_data())
    return Response(answer.body, answer.status, answer.headers)
