"""The worked example, whole: Scheduler, proxy, workflow, guarded function, transaction."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.cloud import firestore
from once.identity import Key

from local import apis as faults
from local.apis import Apis, Operation
from local.workflow import Workflow, WorkflowError, post
from tests.starts.conftest import PLACE, Target, starting
from tests.support.backends import FirestoreBackend
from tests.support.deliveries import Delivery
from tests.support.faults import Fault, Script, Step, eventually
from tests.support.firestore_proxy import FirestoreProxy
from tests.support.handler import ROOT, Answer, Handler
from tests.support.lab import Lab

WORKFLOW = ROOT / "examples" / "workflow.yaml"
BOOKING = ROOT / "handler" / "booking.py"
NAME = f"{PLACE}/workflows/example"
ACCOUNT, CENTS = "acme", 1250
JSON = {"Content-Type": "application/json"}


@dataclass
class Executions:
    """What plays the workflow: each operation `times` times, over a network with faults."""

    times: int
    send: Callable[[str, bytes, float], tuple[int, bytes]]
    results: list[object] = field(default_factory=list)

    def play(self, operation: Operation) -> None:
        workflow = Workflow(WORKFLOW, post=self.send, speed=20)
        with ThreadPoolExecutor(self.times) as pool:
            arguments = [operation.request["argument"]] * self.times
            self.results.extend(pool.map(workflow.execute, arguments))


class TwiceAndLost:
    """Delivers each request twice, and loses the first answer of each caller."""

    def __init__(self) -> None:
        self.requests = 0
        self._local = threading.local()

    def __call__(self, url: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: post(url, body, seconds), range(2)))
        self.requests += 2
        if not getattr(self._local, "lost", False):
            self._local.lost = True
            raise ConnectionError("the answer was lost")
        return answers[0]


class Example:
    """The example as it is deployed, on one Firestore database."""

    def __init__(self, stack: ExitStack, folder: Path, host: str, executions: Executions) -> None:
        self.script = Script()
        wire = stack.enter_context(FirestoreProxy(host, self.script))
        backend = FirestoreBackend(wire.host)
        self._env = {**backend.env(), "ONCE_LEASE_SECONDS": "60"}
        self._folder = folder
        self.function = stack.enter_context(self.another_function())
        self.apis = stack.enter_context(Apis())
        self.apis.add(NAME, executions.play)
        argument = {
            "url": f"http://127.0.0.1:{self.function.port}/",
            "account": ACCOUNT,
            "cents": CENTS,
        }
        entry = {"workflow": {"name": NAME, "argument": argument}}
        target = Target("example", NAME, entry, ("", ""))
        self.proxy = stack.enter_context(starting(Lab(backend, folder), self.apis, [target]))
        project = backend.url.split("/")[2]
        self._client = firestore.Client(project=project, database="runs")

    def bookings(self) -> dict[str, Any]:
        found = self._client.collection("example_bookings").stream()
        return {each.id: each.to_dict() for each in found}

    def balance(self) -> int:
        found = self._client.collection("example_accounts").document(ACCOUNT).get().to_dict()
        return 0 if found is None else int(found["cents"])

    def call(self, **order: object) -> Answer:
        return self.function.request("POST", JSON, json.dumps(order).encode())

    def another_function(self) -> Handler:
        """Return one more instance of the guarded function, which is starting."""
        return Handler(BOOKING, self._folder, self._env, threads=16, target="book")

    def forget(self, key: Key) -> None:
        """Delete a record of the guard."""
        self._client.collection(key.collection).document(key.id).delete()


Make = Callable[[Executions], Example]


@pytest.fixture
def make(tmp_path: Path, firestore_host: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Yield what makes an example; it ends with the test."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_host)
    with ExitStack() as stack:
        yield lambda executions: Example(stack, tmp_path, firestore_host, executions)


def test_scheduled_run_books_once(make: Make) -> None:
    executions = Executions(1, post)
    example = make(executions)
    delivery = Delivery("example")

    assert example.proxy.post(delivery).outcome == "completed"

    eventually(lambda: bool(executions.results), "the workflow ends")
    assert executions.results == ["completed"]
    assert example.bookings() == {delivery.key.id: {"account": ACCOUNT, "cents": CENTS}}
    assert example.balance() == CENTS


def test_every_hop_twice_and_every_answer_lost_once_is_one_effect(make: Make) -> None:
    network = TwiceAndLost()
    executions = Executions(2, network)
    example = make(executions)
    delivery = Delivery("example")
    token = delivery.key.id
    record = Key("token", ("book", token)).id
    for key in (token, record):
        example.script.on(Step.CLAIM, Fault.LOSE, run_id=key)
        example.script.on(Step.FINISH, Fault.LOSE, run_id=key)
    example.script.on(Step.OTHER, Fault.LOSE, run_id=token)  # the transaction's commit
    example.apis.on_start(NAME, faults.LOST_ANSWER)

    example.proxy.post_all([delivery] * 2)  # the Scheduler gets no answer, and asks again
    answers = [example.proxy.post_until_over(delivery)[-1] for _ in range(2)]

    assert [answer.outcome for answer in answers] == ["duplicate", "duplicate"]
    assert [each.token for each in example.apis.started(NAME)] == [token]
    eventually(lambda: len(executions.results) == 2, "both executions of the workflow end")
    assert set(executions.results) <= {"completed", "duplicate"}
    assert network.requests >= 8
    lost = example.script.counted(token) + example.script.counted(record)
    assert {Step.CLAIM, Step.FINISH, Step.OTHER} <= lost.keys()
    assert example.bookings() == {token: {"account": ACCOUNT, "cents": CENTS}}
    assert example.balance() == CENTS


def test_second_execution_that_no_list_showed_changes_nothing(make: Make) -> None:
    """The window of a start, closed downstream: another execution with the same token."""
    executions = Executions(1, post)
    example = make(executions)
    delivery = Delivery("example")
    assert example.proxy.post(delivery).outcome == "completed"
    (first,) = example.apis.started(NAME)

    executions.play(first)

    eventually(lambda: len(executions.results) == 2, "both executions of the workflow end")
    assert sorted(map(str, executions.results)) == ["completed", "duplicate"]
    assert example.balance() == CENTS


def test_attempt_that_outlived_its_lease_changes_nothing(make: Make) -> None:
    """What the guard cannot see, the transaction does: here the guard has forgotten all."""
    example = make(Executions(1, post))
    order = {"idempotency_token": "t", "account": ACCOUNT, "cents": CENTS}
    assert example.call(**order).outcome == "completed"
    example.forget(Key("token", ("book", "t")))

    with example.another_function() as late:
        answer = late.request("POST", JSON, json.dumps(order).encode())

    assert answer.outcome == "completed"
    assert example.balance() == CENTS


def test_orders_that_are_wrong_book_nothing(make: Make) -> None:
    example = make(Executions(1, post))

    for order in ({}, {"idempotency_token": 1}, {"account": ACCOUNT, "cents": CENTS}):
        assert example.call(**order).status == 400
    answer = example.call(idempotency_token="t", account=ACCOUNT, cents="12")

    assert (answer.status, answer.outcome) == (200, "failed")
    assert example.bookings() == {}


def test_workflow_gives_up_what_will_not_pass() -> None:
    def refuse(url: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        return 400, b"no"

    argument = {"idempotency_token": "t", "url": "", "account": ACCOUNT, "cents": CENTS}
    with pytest.raises(WorkflowError, match="400"):
        Workflow(WORKFLOW, post=refuse, speed=20).execute(json.dumps(argument))
