"""What the handler and the program must agree on is written once on each side; this holds it."""

from infra import contract
from once import settings
from once.identity import key, scheduler
from once.stores import record


def test_headers_of_the_program_are_those_that_the_handler_reads() -> None:
    assert contract.PROJECT_HEADER == scheduler.PROJECT
    assert contract.REGION_HEADER == scheduler.REGION
    assert contract.FUNCTION_HEADER == scheduler.FUNCTION


def test_environment_of_the_program_is_what_the_handler_reads() -> None:
    assert contract.STORE == settings.STORE
    assert contract.LEASE_SECONDS == settings.LEASE_SECONDS
    assert contract.RETENTION_SECONDS == settings.RETENTION_SECONDS


def test_collections_and_ttl_field_of_the_program_are_those_that_the_handler_writes() -> None:
    assert {contract.RUNS_COLLECTION, contract.EVENTS_COLLECTION} == set(key.COLLECTIONS.values())
    assert contract.TTL_FIELD == record.EXPIRE_AT
