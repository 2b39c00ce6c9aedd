"""The pattern of Cloud Scheduler's own sample, for comparison: two Firestore transactions a run.

Google's page "Deduplicate job requests" (cloud.google.com/scheduler/docs/configuring/
deduplicate-job-requests) makes a handler idempotent with a transaction that claims the run and one
that records its end. This is written after that description, not copied: the default client at
import, a lease by the worker's clock, the raw header as part of the key.
"""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta

import functions_framework
from flask import Request
from google.cloud import firestore

LEASE = timedelta(minutes=6)
RETENTION = timedelta(days=7)

db = firestore.Client(database="runs")


@firestore.transactional
def claim(
    transaction: firestore.Transaction, run: firestore.DocumentReference, attempt_id: str
) -> str:
    """Claim the run unless it is completed or another attempt's lease is alive."""
    snapshot = run.get(transaction=transaction)
    now = datetime.now(UTC)
    if snapshot.exists:
        if snapshot.get("status") == "completed":
            return "completed"
        if snapshot.get("lease_expires") > now:
            return "in_progress"
    transaction.set(
        run,
        {
            "status": "in_progress",
            "attempt_id": attempt_id,
            "lease_expires": now + LEASE,
            "expire_at": now + RETENTION,
        },
    )
    return "claimed"


@firestore.transactional
def complete(
    transaction: firestore.Transaction, run: firestore.DocumentReference, attempt_id: str
) -> bool:
    """Record the end if the run is still claimed by this attempt."""
    snapshot = run.get(transaction=transaction)
    if not snapshot.exists or snapshot.get("attempt_id") != attempt_id:
        return False
    transaction.update(run, {"status": "completed", "finished_at": datetime.now(UTC)})
    return True


@functions_framework.http
def handle(request: Request) -> tuple[str, int]:
    """Run the job once for each schedule time."""
    job = request.headers.get("X-CloudScheduler-JobName")
    schedule_time = request.headers.get("X-CloudScheduler-ScheduleTime")
    if not job or not schedule_time:
        return "missing headers", 400
    run_id = hashlib.sha256(f"{job}|{schedule_time}".encode()).hexdigest()
    run = db.collection("scheduler_runs").document(run_id)
    attempt_id = uuid.uuid4().hex
    state = claim(db.transaction(), run, attempt_id)
    if state == "completed":
        return "duplicate", 200
    if state == "in_progress":
        return "in progress", 409
    work()
    complete(db.transaction(), run, attempt_id)
    return "completed", 200


def work() -> None:
    """Do nothing: the protocol is what is measured."""
