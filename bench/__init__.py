"""Measurements; the handler is on the path here, as it is in the tests and in the image."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "handler"))
