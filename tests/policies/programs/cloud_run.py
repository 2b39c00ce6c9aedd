"""Each resource breaks the rule that it is named for, and no other."""

import pulumi_gcp as gcp

IMAGE = "europe-docker.pkg.dev/a-project/images/handler@sha256:" + "0" * 64


def service(
    name: str,
    image: str = IMAGE,
    account: str | None = "handler@a-project.iam.gserviceaccount.com",
    ingress: str = "INGRESS_TRAFFIC_INTERNAL_ONLY",
    variables: dict[str, str] | None = None,
    invoker_iam_disabled: bool | None = None,
) -> gcp.cloudrunv2.Service:
    envs = [
        gcp.cloudrunv2.ServiceTemplateContainerEnvArgs(name=name, value=value)
        for name, value in (variables or {}).items()
    ]
    return gcp.cloudrunv2.Service(
        name,
        name=name,
        location="europe-west1",
        ingress=ingress,
        invoker_iam_disabled=invoker_iam_disabled,
        template=gcp.cloudrunv2.ServiceTemplateArgs(
            service_account=account,
            containers=[gcp.cloudrunv2.ServiceTemplateContainerArgs(image=image, envs=envs)],
        ),
    )


fine = service("fine", variables={"ONCE_LEASE_SECONDS": "360"})
gcp.cloudrunv2.ServiceIamMember(
    "cloud-run-no-public-access",
    name=fine.name,
    location="europe-west1",
    role="roles/run.invoker",
    member="allUsers",
)
service("cloud-run-invoker-check", invoker_iam_disabled=True)
service("cloud-run-own-account", account=None)
service("cloud-run-ingress", ingress="INGRESS_TRAFFIC_ALL")
service("cloud-run-image-digest", image="europe-docker.pkg.dev/a-project/images/handler:latest")
service("cloud-run-no-plain-secrets", variables={"STRIPE_API_KEY": "rk_51"})
service("cloud-run-lease", variables={"ONCE_LEASE_SECONDS": "120"})
