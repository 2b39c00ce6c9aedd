"""What the handler and the program must agree on is written once on each side; this holds it."""

import json
from datetime import timedelta

from once import settings, stack_events
from once.identity import key, scheduler
from once.stack_events import StackEvent, read_stack_events
from once.stores import record

from infra import contract
from infra.config import load
from infra.events import handler_setting
from infra.model import EventarcSource


def test_headers_of_the_program_are_those_that_the_handler_reads() -> None:
    assert contract.PROJECT_HEADER == scheduler.PROJECT
    assert contract.REGION_HEADER == scheduler.REGION
    assert contract.FUNCTION_HEADER == scheduler.FUNCTION


def test_environment_of_the_program_is_what_the_handler_reads() -> None:
    assert contract.STORE == settings.STORE
    assert contract.LEASE_SECONDS == settings.LEASE_SECONDS
    assert contract.RETENTION_SECONDS == settings.RETENTION_SECONDS
    assert contract.EVENT_LEASE_SECONDS == settings.EVENT_LEASE_SECONDS
    assert contract.EVENTS == stack_events.EVENTS


def test_collections_and_ttl_field_of_the_program_are_those_that_the_handler_writes() -> None:
    assert {contract.RUNS_COLLECTION, contract.EVENTS_COLLECTION} == set(key.COLLECTIONS.values())
    assert contract.TTL_FIELD == record.EXPIRE_AT


def test_events_of_the_program_are_read_by_the_handler_as_they_were_written() -> None:
    config = load(
        {
            "projectNumber": "123456789012",
            "events": [
                {"name": "orders", "maxAge": "2h", "maxAttempts": 10, "pubsub": {}},
                {"name": "plain", "pubsub": {"deadLetter": False}},
                {
                    "name": "uploads",
                    "eventarc": {
                        "type": "google.cloud.storage.object.v1.deleted",
                        "filters": {"bucket": "a-bucket"},
                    },
                },
            ],
        },
        project="my-project-dev",
        region="europe-west1",
    )

    told = handler_setting(config, "handler")

    orders, plain, uploads = config.events
    assert read_stack_events(json.dumps(told)) == {
        "orders": StackEvent(
            name="orders",
            subscription=config.subscription(orders),
            topic=config.topic(orders),
            max_age=timedelta(hours=2),
            max_attempts=10,
            dead_letter_topic=config.dead_letter_topic(orders),
        ),
        "plain": StackEvent(
            name="plain", subscription=config.subscription(plain), topic=config.topic(plain)
        ),
        "uploads": StackEvent(name="uploads", type="google.cloud.storage.object.v1.deleted"),
    }
    assert isinstance(uploads.source, EventarcSource)
