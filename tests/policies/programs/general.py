"""Each resource breaks the rule that it is named for, and no other."""

import pulumi_gcp as gcp


def bucket(
    name: str, location: str = "europe-west1", prevention: str = "enforced"
) -> gcp.storage.Bucket:
    return gcp.storage.Bucket(name, location=location, public_access_prevention=prevention)


fine = bucket("fine")
bucket("general-regions", location="us-central1")
bucket("general-bucket-public-access", prevention="inherited")
gcp.storage.BucketIAMMember(
    "general-bucket-public-grants",
    bucket="fine",
    role="roles/storage.objectViewer",
    member="allUsers",
)
gcp.projects.Service(
    "general-apis-stay-enabled", service="run.googleapis.com", disable_on_destroy=True
)
