"""Programs for the rules about grants and accounts."""

from rules import schema

from ..analyzer import Declared
from .case import BREAKS, CANNOT_RUN, PASSES, Case
from .compliant import NOT_YET, grant

_PROJECT_MEMBER = grant(schema.PROJECT_GRANTS[0], project="acme").set(
    "role", "roles/logging.viewer"
)
_ACCOUNT_MEMBER = grant(
    schema.ACCOUNT_GRANTS[0],
    serviceAccountId="projects/acme/serviceAccounts/handler@acme.iam.gserviceaccount.com",
).set("role", "roles/iam.serviceAccountTokenCreator")
_KEY = Declared(schema.ACCOUNT_KEY, "key", {"serviceAccountId": "handler"})
_ACCOUNT = Declared("gcp:serviceaccount/account:Account", "account", {"accountId": "handler"})

CASES = (
    Case(
        "iam-no-basic-roles",
        passes=[_PROJECT_MEMBER],
        breaks=[_PROJECT_MEMBER.set("role", "roles/editor")],
        absent=([_PROJECT_MEMBER.drop("role")], PASSES),
        unknown=([_PROJECT_MEMBER.set("role", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "iam-no-wide-impersonation",
        passes=[_ACCOUNT_MEMBER],
        breaks=[_PROJECT_MEMBER.set("role", "roles/iam.serviceAccountTokenCreator")],
        absent=([_PROJECT_MEMBER.drop("role")], PASSES),
        unknown=([_PROJECT_MEMBER.set("role", NOT_YET)], CANNOT_RUN),
    ),
    Case(
        "iam-no-authoritative-grants",
        passes=[_PROJECT_MEMBER],
        breaks=[
            grant(schema.PROJECT_GRANTS[1], project="acme").set("role", "roles/logging.viewer")
        ],
        absent=([_PROJECT_MEMBER.drop("member")], PASSES),
        unknown=([grant(schema.PROJECT_GRANTS[2]).set("policyData", NOT_YET)], BREAKS),
    ),
    Case(
        "iam-no-keys",
        passes=[_ACCOUNT],
        breaks=[_ACCOUNT, _KEY],
        absent=([_KEY.drop("serviceAccountId")], BREAKS),
        unknown=([_KEY.set("serviceAccountId", NOT_YET)], BREAKS),
    ),
    Case(
        "iam-no-default-accounts",
        passes=[_PROJECT_MEMBER],
        breaks=[
            _PROJECT_MEMBER.set(
                "member", "serviceAccount:123456789012-compute@developer.gserviceaccount.com"
            )
        ],
        absent=([_PROJECT_MEMBER.drop("member")], PASSES),
        unknown=([_PROJECT_MEMBER.set("member", NOT_YET)], CANNOT_RUN),
    ),
)
