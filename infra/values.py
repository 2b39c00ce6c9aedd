"""Checks of single values: what Google Cloud accepts, and what the program keeps for itself."""

import re
from datetime import timedelta

from infra import cron, timing
from infra.reading import duration, matching, text, written

identifier = matching(r"[A-Za-z0-9_-]{1,450}", "takes letters, digits, - and _ only")
location = matching(
    r"[a-z]+-[a-z]+[0-9]+|global|us|eu|asia|(asia|eur|nam)[0-9]",
    "is no location, such as europe-west1, eu or global",
)
database_location = matching(
    r"[a-z]+-[a-z]+[0-9]+|(eur|nam)[0-9]",
    "is no location of Firestore, such as europe-west1 or eur3",
)
region = matching(r"[a-z]+-[a-z]+[0-9]+", "is no region, such as europe-west1")
_project_number = matching(r"[1-9]\d{5,18}", "is no project number: digits only")
project = matching(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", "is no project id, such as my-project-1")
_env_name = matching(r"[A-Za-z_][A-Za-z0-9_]*", "is no name of an environment variable")
label_key = matching(
    r"[a-z][a-z0-9_-]{0,62}", "is no label key: a-z, then at most 62 of a-z, 0-9, - and _"
)
label_value = matching(r"[a-z0-9_-]{0,63}", "is no label value: at most 63 of a-z, 0-9, - and _")
_header_name = matching(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", "is no header name")
header_value = matching(r"[\x20-\x7e]*", "is no header value: printable ASCII only")

service_name = matching(r"[a-z]([a-z0-9-]*[a-z0-9])?", "takes a-z, 0-9 and -, and starts with a-z")
stack_name = matching(
    r"(?!goog)[a-z]([a-z0-9-]{2,18}[a-z0-9])",
    "takes 4 to 20 of a-z, 0-9 and -, and starts with a-z, though not with goog",
)
_role = matching(
    r"(projects/[^/]+/|organizations/[^/]+/)?roles/[A-Za-z0-9_.]+",
    "is no role, such as roles/storage.objectUser",
)
secret = matching(
    r"(projects/[^/:]+/secrets/)?[A-Za-z0-9_-]{1,255}(:([1-9]\d*|latest))?",
    "is no secret: write NAME or NAME:VERSION",
)
memory = matching(r"[1-9]\d*(Mi|Gi)", "is no amount of memory: write 512Mi or 2Gi")
substitution = matching(r"_[A-Z0-9_]{1,100}", "is no user substitution: _ and then A-Z, 0-9 and _")
database = matching(
    r"\(default\)|(?![0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$)[a-z][a-z0-9-]{2,61}[a-z0-9]",
    "is no database id: 4 to 63 of a-z, 0-9 and -, and not like a UUID",
)
channel = matching(
    r"projects/[^/]+/notificationChannels/\d+",
    "is no notification channel: projects/PROJECT/notificationChannels/NUMBER",
)
service_account = matching(
    r"[a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z][a-z0-9-]{4,28}[a-z0-9]\.iam\.gserviceaccount\.com"
    r"|[1-9]\d+-compute@developer\.gserviceaccount\.com",
    "is no service account of a build: NAME@PROJECT.iam.gserviceaccount.com, or "
    "NUMBER-compute@developer.gserviceaccount.com",
)
event_name = matching(
    r"(?!.*-dead$)[a-z][a-z0-9-]{1,40}[a-z0-9]",
    "takes 3 to 42 of a-z, 0-9 and -, and does not end in -dead, as dead letters do",
)
topic = matching(
    r"(projects/[^/]+/topics/)?(?!goog)[A-Za-z][A-Za-z0-9._~+%-]{2,254}", "is no topic's name"
)
bucket = matching(
    r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", "is no bucket's name: without gs:// and without a path"
)
queue = matching(r"[A-Za-z0-9-]{1,500}", "is no queue's name: letters, digits and -")
dataset = matching(r"\w{1,1024}", "is no dataset's name: letters, digits and _")
target_name = matching(
    r"(projects/.+/)?[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "takes letters, digits, - and _ only"
)
_event_type = matching(
    r"[A-Za-z][\w-]*(\.[\w-]+)+",
    "is no CloudEvents type, such as google.cloud.storage.object.v1.finalized",
)
image = matching(
    r"[^@\s]+@sha256:[0-9a-f]{64}",
    "is no digest: write REGISTRY/IMAGE@sha256:..., so that what was tested is what runs",
)


MAX_FILTER_BYTES = 256
"""Source: Subscription.filter in Pub/Sub's API."""

MAX_LABELS = 63
"""Google takes 64, and the provider adds one. Source: AlertPolicy and Workflow in the APIs."""

MAX_VARIABLE_BYTES = 32_768
"""Source: EnvVar.value in Cloud Run's API."""

_MEMORY = {
    "1": ("128Mi", "4Gi"),
    "2": ("128Mi", "8Gi"),
    "4": ("2Gi", "16Gi"),
    "6": ("4Gi", "24Gi"),
    "8": ("4Gi", "32Gi"),
}
_BASIC_ROLES = ("roles/owner", "roles/editor", "roles/viewer")
_OWN_VARIABLES = (
    "THREADS",
    "PORT",
    "WORKERS",
    "GOOGLE_CLOUD_PROJECT",
)
_EMULATORS = ("FIRESTORE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST")
_OWN_PREFIXES = ("ONCE_", "K_", "CLOUD_RUN_", "X_GOOGLE_", "FUNCTION_")
_REFUSED_HEADERS = {
    "host": "Cloud Scheduler sets it from the URL",
    "user-agent": "Cloud Scheduler replaces it",
    "content-length": "Cloud Scheduler computes it",
    "content-type": "the body is always sent as application/json",
    "authorization": "the token of the scheduler's account stands there",
}
_REFUSED_PREFIXES = {
    "x-cloudscheduler": "Cloud Scheduler sets it",
    "x-google-": "Google replaces it",
    "x-appengine-": "Google replaces it",
    "x-scheduler-": "the program sets it; it identifies the run",
}


def project_number(value: object) -> str:
    """Check for a project's number, with or without quotes."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    return _project_number(str(value) if plain else value)


def expression(value: object) -> str:
    """Check for five unix-cron fields; return them with single spaces."""
    cron.check_expression(text(value))
    return " ".join(text(value).split())


def zone(value: object) -> str:
    """Check for an IANA time zone."""
    cron.check_zone(text(value))
    return text(value)


def timeout(value: object) -> timedelta:
    """Check for a request timeout that Cloud Scheduler's attempt deadline can follow."""
    found = duration(value)
    if not timing.MIN_TIMEOUT <= found <= timing.MAX_TIMEOUT:
        raise ValueError(
            f"is not from {written(timing.MIN_TIMEOUT)} to {written(timing.MAX_TIMEOUT)}, which "
            "are Cloud Scheduler's limits; work that takes longer belongs into a Cloud Run job "
            "that `start` starts"
        )
    return found


def positive(value: object) -> timedelta:
    """Check for a duration that is not zero."""
    found = duration(value)
    if not found:
        raise ValueError("is zero: at least 1s")
    return found


def message_retention(value: object) -> timedelta:
    """Check for a time that Pub/Sub can keep a message for."""
    found = duration(value)
    if not timedelta(minutes=10) <= found <= timedelta(days=7):
        raise ValueError("is not from 10m to 7d")
    return found


def event_backoff(value: object) -> timedelta:
    """Check for a wait that Pub/Sub can keep between two deliveries."""
    found = duration(value)
    if found > timing.MAX_EVENT_BACKOFF:
        raise ValueError(f"is longer than {written(timing.MAX_EVENT_BACKOFF)}, Pub/Sub's limit")
    return found


def message_filter(value: object) -> str:
    """Check for the filter of a Pub/Sub subscription."""
    return _at_most(MAX_FILTER_BYTES, text(value))


def filter_value(value: object) -> str:
    """Check for what an attribute of an Eventarc trigger must be."""
    if not text(value):
        raise ValueError("is empty: Eventarc takes no filter without a value")
    return text(value)


def variable_value(value: object) -> str:
    """Check for the value of an environment variable."""
    return _at_most(MAX_VARIABLE_BYTES, text(value))


def _at_most(limit: int, value: str) -> str:
    if (size := len(value.encode())) > limit:
        raise ValueError(f"has {size} bytes: at most {limit}")
    return value


def event_type(value: object) -> str:
    """Check for a CloudEvents type whose delivery is best left to Eventarc."""
    found = _event_type(value)
    if found == "google.cloud.pubsub.topic.v1.messagePublished":
        raise ValueError(
            "is a Pub/Sub message: use pubsub, which has retries and a dead-letter topic"
        )
    return found


def cpu(value: object) -> str:
    """Check for a number of CPUs that Cloud Run offers."""
    number = str(value).removesuffix(".0")
    if number in _MEMORY or (re.fullmatch(r"0\.\d{1,3}", number) and float(number) >= 0.08):
        return number
    raise ValueError(f"is no number of CPUs: 0.08 to 0.999, or {', '.join(_MEMORY)}")


def memory_range(cpus: str) -> tuple[str, str]:
    """Return the least and the most memory for so many CPUs.

    Source: https://cloud.google.com/run/docs/configuring/services/cpu
    """
    if cpus not in _MEMORY:
        return "128Mi", "512Mi" if float(cpus) < 0.5 else "1Gi"
    return _MEMORY[cpus]


def mebibytes(amount: str) -> int:
    """Return an amount of memory in MiB."""
    return int(amount[:-2]) * (1024 if amount.endswith("Gi") else 1)


def role(value: object) -> str:
    """Check for a role that is not a basic one."""
    found = _role(value)
    if found in _BASIC_ROLES:
        raise ValueError("is a basic role, far wider than any job needs; name a predefined one")
    return found


def variable(value: object) -> str:
    """Check for an environment variable that is the user's to set."""
    name = _env_name(value)
    if name in _OWN_VARIABLES or name.startswith(_OWN_PREFIXES):
        raise ValueError("is set by the program, the image or Cloud Run; use another name")
    if name in _EMULATORS:
        raise ValueError("would lead away from Google's own service")
    return name


def header(value: object) -> str:
    """Check for a request header that is the user's to set."""
    name = _header_name(value)
    lower = name.lower()
    refused = _REFUSED_HEADERS.get(lower) or next(
        (why for prefix, why in _REFUSED_PREFIXES.items() if lower.startswith(prefix)), None
    )
    if refused:
        raise ValueError(f"cannot be set: {refused}")
    return name
