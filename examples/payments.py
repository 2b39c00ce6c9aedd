"""Charge a card once for each order, through an API that honours idempotency keys.

The API keeps the answer to a key and gives it again, so a second attempt at the same event, after
a crash or a lost answer, charges nothing. `event.run_id` is that key: it is the same for every
attempt at an event, and no other event has it.
"""

import os
from datetime import timedelta

import requests
from once import Event, Fatal, on_message, permanent

API = os.environ.get("PAYMENTS_API", "https://payments.example")


@on_message(subscription="payments", max_age=timedelta(hours=12), fatal_on=permanent)
def charge(event: Event) -> None:
    """Charge what the order says; an order that the API refuses is given up."""
    order = event.json()
    if order["cents"] <= 0:
        raise Fatal(f"order {order['id']} is for {order['cents']} cents")
    answer = requests.post(
        f"{API}/charges",
        json={"order": order["id"], "cents": order["cents"]},
        headers={"Idempotency-Key": event.run_id},
        timeout=(5, min(30, event.remaining().total_seconds())),
    )
    # 402 for a refused card is permanent; 429, 503 and a lost connection bring the event back.
    answer.raise_for_status()
