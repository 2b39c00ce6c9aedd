"""What a delivery is: the first room. Pure; nothing here does I/O."""

from once.identity.key import BadDelivery, Delivery, Key, Kind

__all__ = ["BadDelivery", "Delivery", "Key", "Kind"]
