"""The payments example, against an API that honours idempotency keys: one charge per order."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.backends import SqliteBackend
from tests.support.faults import eventually
from tests.support.handler import ROOT, Answer, Handler
from tests.support.lab import Lab
from tests.support.payments_api import PaymentsApi
from tests.support.pushes import Message

APP = ROOT / "tests" / "support" / "payments_app.py"


@pytest.fixture
def api() -> Iterator[PaymentsApi]:
    with PaymentsApi() as api:
        yield api


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(SqliteBackend(tmp_path / "runs.db"), tmp_path)


def serve(lab: Lab, api: PaymentsApi, lease_seconds: int = 60) -> Handler:
    settings = {"PAYMENTS_API": api.url, "ONCE_EVENT_LEASE_SECONDS": str(lease_seconds)}
    return lab.handler(source=APP, settings=settings)


def order(number: int = 1, cents: int = 4_200) -> Message:
    return Message("payments", json.dumps({"id": f"order-{number}", "cents": cents}).encode())


def post(handler: Handler, message: Message) -> Answer:
    return handler.request("POST", message.wrapped.headers, message.wrapped.body)


def outcomes(handler: Handler, message: Message, times: int) -> list[str | None]:
    return [post(handler, message).outcome for _ in range(times)]


def test_order_is_charged_once_under_the_key_of_its_event(api: PaymentsApi, lab: Lab) -> None:
    first, second = order(1), order(2)
    with serve(lab, api) as handler:
        assert outcomes(handler, first, 2) == ["completed", "duplicate"]
        assert outcomes(handler, second, 1) == ["completed"]

    assert api.charged == {"order-1": [4_200], "order-2": [4_200]}
    assert api.keys == {each.wrapped.key("charge").id: 1 for each in (first, second)}


def test_charge_whose_answer_was_lost_is_not_made_again(api: PaymentsApi, lab: Lab) -> None:
    lost = iter([True])
    api.after_charge = lambda: next(lost, False)
    message = order()
    with serve(lab, api) as handler:
        assert outcomes(handler, message, 2) == ["released", "completed"]

    assert api.charged == {"order-1": [4_200]}
    assert api.keys == {message.wrapped.key("charge").id: 2}


def test_charge_of_an_attempt_that_crashed_is_not_made_again(api: PaymentsApi, lab: Lab) -> None:
    charged, crashed = threading.Event(), threading.Event()

    def wait_for_the_crash() -> bool:
        charged.set()
        crashed.wait()
        return False

    api.after_charge = wait_for_the_crash
    message = order()
    with serve(lab, api, lease_seconds=2) as handler, ThreadPoolExecutor(1) as pool:
        delivery = pool.submit(post, handler, message)
        charged.wait()
        handler.kill()
        with pytest.raises((http.client.HTTPException, OSError)):
            delivery.result()
    crashed.set()
    api.after_charge = lambda: False
    with serve(lab, api, lease_seconds=2) as handler:
        eventually(lambda: post(handler, message).outcome == "completed", "it is taken over")

    assert api.charged == {"order-1": [4_200]}
    assert api.keys == {message.wrapped.key("charge").id: 2}


def test_busy_api_brings_the_order_back(api: PaymentsApi, lab: Lab) -> None:
    api.busy = 2
    with serve(lab, api) as handler:
        assert outcomes(handler, order(), 3) == ["released", "released", "completed"]

    assert api.charged == {"order-1": [4_200]}


@pytest.mark.parametrize(
    "message",
    [
        order(cents=200_000),  # the card is refused: 402
        order(cents=0),
        Message("payments", b'{"id": "order-1"}'),
        Message("payments", b"no json"),
    ],
)
def test_order_that_cannot_be_charged_is_given_up_at_once(
    message: Message, api: PaymentsApi, lab: Lab
) -> None:
    with serve(lab, api) as handler:
        assert outcomes(handler, message, 2) == ["failed", "duplicate"]

    assert api.charged == {}
