"""Reads the configuration that the Pulumi engine hands to the program."""

import json

import pulumi
from pulumi.runtime import is_config_secret
from pulumi.runtime.config import CONFIG

from infra.config import StackConfig, load


def read_config() -> StackConfig:
    """Check the configuration of the stack that is being previewed or updated.

    Raises
    ------
    infra.config.ConfigError
        If anything is wrong with it.
    """
    own, provider = pulumi.Config(), pulumi.Config("gcp")
    prefix = own.full_key("")
    keys = [key for key in CONFIG.get() if key.startswith(prefix)]
    return load(
        {key.removeprefix(prefix): _plain(CONFIG.get()[key]) for key in keys},
        project=provider.get("project"),
        region=provider.get("region"),
        secret_keys=[key.removeprefix(prefix) for key in keys if is_config_secret(key)],
    )


def _plain(value: str) -> object:
    """Return the value behind the engine's text: mappings, lists and flags come as JSON."""
    if value[:1] not in ("{", "[") and value not in ("true", "false"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
