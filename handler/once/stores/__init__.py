"""The store: four compare-and-set operations on one versioned record, one file per backend."""

from once.stores.base import Store, StoreError, StoreUnavailable
from once.stores.record import Reading, Record, Status, Version, Versioned
from once.stores.url import open_store

__all__ = [
    "Reading",
    "Record",
    "Status",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "Version",
    "Versioned",
    "open_store",
]
