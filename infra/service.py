"""A Cloud Run service: its account, what that account may do, and the service itself."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import pulumi
from pulumi_gcp import (
    bigquery,
    cloudrunv2,
    cloudtasks,
    projects,
    pubsub,
    secretmanager,
    storage,
)

from infra import contract, starts
from infra.account import Account, make_account
from infra.component import Component
from infra.model import Grant, Service, StackConfig, Start

PORT = 8080
"""Cloud Run's default for the PORT variable, named so that the probe can name it too."""

STARTUP_SECONDS = 240
"""The longest that Cloud Run lets a start take."""

_INGRESS = {
    "internal": "INGRESS_TRAFFIC_INTERNAL_ONLY",
    "load-balancer": "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
    "all": "INGRESS_TRAFFIC_ALL",
}


class RunService(Component):
    """One service of the stack.

    Attributes
    ----------
    account, service
        Its account and the Cloud Run service, for what has to wait for them.
    urls
        The URLs under which it really answers.
    """

    def __init__(
        self,
        config: StackConfig,
        settings: Service,
        image: pulumi.Input[str],
        variables: Mapping[str, str],
        depends_on: Sequence[pulumi.Resource],
        may_start: Collection[Start] = (),
    ) -> None:
        super().__init__("Service", settings.name, config, depends_on)
        self.settings = settings
        self.account = make_account(self, settings.name, "Cloud Run")
        grants: list[pulumi.Resource] = [
            self._may_use_database(),
            *self._may_read_secrets(),
            *(self._may(grant) for grant in settings.roles),
            *starts.grant(may_start, self.account.member, self.options(self.account.resource)),
        ]
        self.service = self._service(image, variables, [self.account.resource, *grants])
        self.urls = self.service.urls.apply(self._check_urls)
        self.register_outputs({})

    def invoker(self, name: str, account: Account) -> pulumi.Resource:
        """Let an account call this service."""
        return cloudrunv2.ServiceIamMember(
            f"{name}-calls-{self.settings.name}",
            project=self.config.project,
            location=self.config.region,
            name=self.config.called(self.settings.name),
            role="roles/run.invoker",
            member=account.member,
            opts=self.options(self.service, account.resource),
        )

    def _check_urls(self, urls: Sequence[str] | None) -> Sequence[str]:
        """Stop `up` where the URL that was derived is not one of the service's own."""
        derived = self.config.service_url(self.settings.name)
        if urls and derived not in urls:
            raise pulumi.RunError(
                f"service {self.config.called(self.settings.name)} answers at {', '.join(urls)}, "
                f"not at {derived}: is projectNumber {self.config.project_number} the number of "
                f"{self.config.project}?"
            )
        return urls or [derived]

    def _may_use_database(self) -> pulumi.Resource:
        database = f"projects/{self.config.project}/databases/{self.config.database.name}"
        return projects.IAMMember(
            f"{self.settings.name}-database",
            project=self.config.project,
            role="roles/datastore.user",
            member=self.account.member,
            condition=projects.IAMMemberConditionArgs(
                title=f"{self.config.called(self.settings.name)}-database",
                description="Only the database of this stack's records",
                expression=f'resource.name == "{database}"',
            ),
            opts=self.options(self.account.resource),
        )

    def _may_read_secrets(self) -> Sequence[pulumi.Resource]:
        names = sorted({secret.name for secret in self.settings.secrets.values()})
        return [
            secretmanager.SecretIamMember(
                f"{self.settings.name}-secret-{name}",
                project=self._project_of(name),
                secret_id=name.rpartition("/")[2],
                role="roles/secretmanager.secretAccessor",
                member=self.account.member,
                opts=self.options(self.account.resource),
            )
            for name in names
        ]

    def _project_of(self, name: str) -> str:
        """Return the project that a full name tells; a mere id is of the stack's."""
        return name.split("/")[1] if "/" in name else self.config.project

    def _may(self, grant: Grant) -> pulumi.Resource:
        """Give one of the roles that the configuration lists, on the resource that it names."""
        short = grant.role.removeprefix("roles/")
        name = f"{self.settings.name}-{grant.kind}-{grant.resource}-{short}"
        role, member, resource = grant.role, self.account.member, grant.resource
        project, opts = self.config.project, self.options(self.account.resource)
        match grant.kind:
            case "bucket":
                return storage.BucketIAMMember(
                    name, bucket=resource, role=role, member=member, opts=opts
                )
            case "topic":
                return pubsub.TopicIAMMember(
                    name,
                    project=self._project_of(resource),
                    topic=resource.rpartition("/")[2],
                    role=role,
                    member=member,
                    opts=opts,
                )
            case "queue":
                return cloudtasks.QueueIamMember(
                    name,
                    project=project,
                    location=self.config.region,
                    name=resource,
                    role=role,
                    member=member,
                    opts=opts,
                )
            case "dataset":
                return bigquery.DatasetIamMember(
                    name, project=project, dataset_id=resource, role=role, member=member, opts=opts
                )
        raise AssertionError(grant.kind)

    def _service(
        self,
        image: pulumi.Input[str],
        variables: Mapping[str, str],
        depends_on: Sequence[pulumi.Resource],
    ) -> cloudrunv2.Service:
        settings, timing = self.settings, self.settings.timing
        protected = settings.name not in self.config.unprotected
        container = cloudrunv2.ServiceTemplateContainerArgs(
            image=image,
            commands=list(settings.command[:1]) or None,
            args=list(settings.command[1:]) or None,
            ports=cloudrunv2.ServiceTemplateContainerPortsArgs(name="http1", container_port=PORT),
            envs=self._environment(variables),
            resources=cloudrunv2.ServiceTemplateContainerResourcesArgs(
                limits={"cpu": settings.cpu, "memory": settings.memory},
                cpu_idle=True,
                startup_cpu_boost=True,
            ),
            startup_probe=cloudrunv2.ServiceTemplateContainerStartupProbeArgs(
                tcp_socket=cloudrunv2.ServiceTemplateContainerStartupProbeTcpSocketArgs(port=PORT),
                initial_delay_seconds=0,
                period_seconds=1,
                timeout_seconds=1,
                failure_threshold=STARTUP_SECONDS,
            ),
            # No liveness probe: all threads may be busy with long jobs, a probe would queue behind
            # them, and Cloud Run would kill the container in the middle of all of them.
        )
        return cloudrunv2.Service(
            settings.name,
            project=self.config.project,
            location=self.config.region,
            name=self.config.called(settings.name),
            labels=self.config.labels or None,
            ingress=_INGRESS[settings.ingress],
            deletion_protection=protected and self.config.production,
            template=cloudrunv2.ServiceTemplateArgs(
                service_account=self.account.email,
                timeout=seconds(timing.timeout),
                # One number: a request that finds no free thread would wait inside its lease.
                max_instance_request_concurrency=settings.concurrency,
                scaling=cloudrunv2.ServiceTemplateScalingArgs(
                    min_instance_count=settings.min_instances,
                    max_instance_count=settings.max_instances,
                ),
                vpc_access=self._vpc_access(),
                containers=[container],
            ),
            opts=self.options(*depends_on, protect=protected),
        )

    def _environment(
        self, variables: Mapping[str, str]
    ) -> list[cloudrunv2.ServiceTemplateContainerEnvArgs]:
        plain = {
            contract.STORE: self.config.store,
            contract.LEASE_SECONDS: str(int(self.settings.timing.lease.total_seconds())),
            contract.RETENTION_SECONDS: str(int(self.config.retention.total_seconds())),
            contract.THREADS: str(self.settings.concurrency),
            **variables,
            **self.settings.env,
        }
        entry = cloudrunv2.ServiceTemplateContainerEnvArgs
        return [entry(name=name, value=value) for name, value in sorted(plain.items())] + [
            entry(
                name=name,
                value_source=cloudrunv2.ServiceTemplateContainerEnvValueSourceArgs(
                    secret_key_ref=cloudrunv2.ServiceTemplateContainerEnvValueSourceSecretKeyRefArgs(
                        secret=secret.name, version=secret.version
                    )
                ),
            )
            for name, secret in sorted(self.settings.secrets.items())
        ]

    def _vpc_access(self) -> cloudrunv2.ServiceTemplateVpcAccessArgs | None:
        vpc = self.settings.vpc
        if vpc is None:
            return None
        return cloudrunv2.ServiceTemplateVpcAccessArgs(
            egress="ALL_TRAFFIC" if vpc.all_traffic else "PRIVATE_RANGES_ONLY",
            network_interfaces=[
                cloudrunv2.ServiceTemplateVpcAccessNetworkInterfaceArgs(
                    network=vpc.network, subnetwork=vpc.subnetwork, tags=list(vpc.tags) or None
                )
            ],
        )


def seconds(duration: timedelta) -> str:
    """Write a duration as Google's APIs read it."""
    return f"{int(duration.total_seconds())}s"


def as_json(value: object) -> str:
    """Write JSON in one fixed form, so that the same configuration gives the same text."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
