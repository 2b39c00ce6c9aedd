"""The event handlers of this service. Replace this one with yours.

An event is named in `events` of `Pulumi.<stack>.yaml`. `make run` publishes some on this machine.
"""

import json
import logging
import os
from datetime import timedelta
from pathlib import Path
from tempfile import gettempdir

from once import Event, Fatal, on_message, permanent

LOG = logging.getLogger(__name__)
WORK = Path(os.environ.get("WORK_DIR", gettempdir()))


@on_message(subscription="orders", max_age=timedelta(hours=12), fatal_on=permanent)
def pack_order(event: Event) -> None:
    """Write one packing slip per order: repeating it writes the same file again."""
    order = event.json()
    if not order["items"]:
        raise Fatal(f"order {order['id']} has nothing to pack")
    slip = WORK / f"order-{event.run_id}.json"
    draft = slip.with_suffix(f".{event.attempt_id}")
    draft.write_text(json.dumps({"order": order["id"], "items": order["items"]}) + "\n")
    draft.replace(slip)  # whole or not at all
    LOG.info("packed order %s", order["id"])
