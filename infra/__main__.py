"""The Pulumi program. `python -m infra` does nothing useful: run `pulumi preview`."""

import sys
from pathlib import Path

# Pulumi puts only this folder on the path. The package `infra` stands one above, and nothing in it
# should hide a module of the same name.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

import pulumi  # noqa: E402

from infra.config import ConfigError  # noqa: E402
from infra.program import build, show  # noqa: E402
from infra.stack import read_config  # noqa: E402

try:
    config = read_config()
    show(config)
    build(config)
except ConfigError as error:
    raise pulumi.RunError(str(error)) from error
