"""Starting Google APIs once: a job function for each entry of ONCE_STARTS.

starter.py has the rule (look, start, look again), api.py what an answer means, and one file per
target what its API lets one ask. docs/starting-google-apis.md says what that leaves open.
"""

from once.starts.config import read_endpoints, read_starts

__all__ = ["read_endpoints", "read_starts"]
