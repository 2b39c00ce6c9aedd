"""What the program and the handler must agree on; the handler has the same names on its own side.

A test holds the two together, since neither may import the other.
"""

RUNS_COLLECTION = "scheduler_runs"
EVENTS_COLLECTION = "processed_events"
TTL_FIELD = "expire_at"

PROJECT_HEADER = "X-Scheduler-Project"
REGION_HEADER = "X-Scheduler-Region"
FUNCTION_HEADER = "X-Scheduler-Function"

STORE = "ONCE_STORE"
LEASE_SECONDS = "ONCE_LEASE_SECONDS"
RETENTION_SECONDS = "ONCE_RETENTION_SECONDS"
EVENT_LEASE_SECONDS = "ONCE_EVENT_LEASE_SECONDS"
STARTS = "ONCE_STARTS"
EVENTS = "ONCE_EVENTS"
"""A JSON object from an event's name to what the stack says of it::

    {"orders":  {"subscription": "projects/P/subscriptions/S", "topic": "projects/P/topics/T",
                 "maxAgeSeconds": 3600, "maxAttempts": 8, "deadLetterTopic": "projects/P/topics/D"},
     "uploads": {"type": "google.cloud.storage.object.v1.finalized"}}

`subscription` or `type` says where deliveries come from; the rules are there where they are set.
"""
THREADS = "THREADS"

TOKEN_KEYS = {
    "argument": "idempotency_token",
    "env": "IDEMPOTENCY_TOKEN",
    "substitutions": "_IDEMPOTENCY_TOKEN",
}
"""Where the proxy puts a run's token; a user's key of that name would be lost."""

JOB_LABEL = "job"
"""The log label that carries Cloud Scheduler's name of the job."""

OUTCOME_LABEL = "outcome"
"""The log label that carries what became of a delivery; only the handler's own lines have it."""
