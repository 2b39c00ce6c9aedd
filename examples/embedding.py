"""A service of your own with `once` in it: Flask, any path, and no functions-framework."""

import logging
import os

from flask import Flask, Response, request
from once import Run, job, logs
from once.service import Service
from once.settings import load
from once.stopping import told_to_stop

LOG = logging.getLogger(__name__)


@job("nightly-report")
def nightly_report(run: Run) -> None:
    LOG.info("the report of %s, for %s", run.schedule_time, run.run_id)


logs.set_up()
app = Flask(__name__)
service = Service(load(os.environ), stopping=told_to_stop)


@app.post("/deliveries")
def deliver() -> Response:
    answer = service.deliver(request.method, dict(request.headers), request.get_data())
    return Response(answer.body, answer.status, answer.headers)
