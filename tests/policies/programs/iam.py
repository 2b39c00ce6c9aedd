"""Each resource breaks the rule that it is named for, and no other."""

import pulumi_gcp as gcp

HANDLER = gcp.serviceaccount.Account("handler", account_id="handler")
MEMBER = "serviceAccount:handler@a-project.iam.gserviceaccount.com"


def grant(name: str, role: str, member: str = MEMBER) -> None:
    gcp.projects.IAMMember(name, project="a-project", role=role, member=member)


grant("fine", "roles/logging.logWriter")
grant("iam-no-basic-roles", "roles/editor")
grant("iam-no-wide-impersonation", "roles/iam.serviceAccountTokenCreator")
grant(
    "iam-no-default-accounts",
    "roles/logging.logWriter",
    "serviceAccount:123456789012-compute@developer.gserviceaccount.com",
)
gcp.projects.IAMBinding(
    "iam-no-authoritative-grants",
    project="a-project",
    role="roles/logging.logWriter",
    members=[MEMBER],
)
gcp.serviceaccount.Key("iam-no-keys", service_account_id=HANDLER.name)
