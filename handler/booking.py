"""The guarded function of the worked example: it books an order once, however often it is called.

`functions-framework --source booking.py --target book` serves it; examples/README.md has the rest.
"""

import os
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import functions_framework
from flask import Request, Response
from google.cloud import firestore
from once import Fatal, logs, once_per_token

logs.set_up()


@functions_framework.http
def book(request: Request) -> Response:
    """Answer a call whose JSON body has an `idempotency_token`, an `account` and `cents`."""
    order = request.get_json(silent=True)
    if not isinstance(order, dict) or not isinstance(order.get("idempotency_token"), str):
        return Response("send a JSON object with an idempotency_token\n", 400)
    # The guard keeps two attempts apart and answers a repeat without running it again.
    done = once_per_token(order["idempotency_token"], lambda _: _book(order), name="book")
    return Response(done.answer.body, done.answer.status, done.answer.headers)


def _book(order: dict[str, Any]) -> str:
    account, cents = order.get("account"), order.get("cents")
    if not isinstance(account, str) or not account or not isinstance(cents, int):
        raise Fatal("an order has an account (text) and cents (whole number)")
    booked = _book_in(_database().transaction(), order["idempotency_token"], account, cents)
    return "booked" if booked else "had been booked"


@firestore.transactional
def _book_in(transaction: firestore.Transaction, token: str, account: str, cents: int) -> bool:
    """Write the booking and the balance together, unless this token has been booked.

    No lease can promise that an attempt which was paused past its end does nothing more. The
    transaction can: the token's booking and the effect are one write.
    """
    booking = _database().collection("example_bookings").document(token)
    if booking.get(transaction=transaction).exists:
        return False
    balance = _database().collection("example_accounts").document(account)
    transaction.create(booking, {"account": account, "cents": cents})
    transaction.set(balance, {"cents": firestore.Increment(cents)}, merge=True)
    return True


@cache
def _database() -> firestore.Client:
    """Return the database in which the guard's records stand, too."""
    store = urlsplit(os.environ["ONCE_STORE"])
    return firestore.Client(project=store.netloc, database=store.path.removeprefix("/"))
