"""What the proxy may start, and how it is told.

Each target gets the narrowest role that there is:

- a workflow: `roles/workflows.invoker`, which can be granted on a project only
  (https://cloud.google.com/iam/docs/roles-permissions/workflows), and whose resources no IAM
  condition knows (https://cloud.google.com/iam/docs/conditions-resource-attributes);
- a Cloud Run job: on that job alone, one role that runs it with overrides, which carry the token,
  and one that lists its executions, for the look before a start;
- a build trigger: `roles/cloudbuild.builds.editor`, on the project, since running a trigger and
  listing builds cannot be granted on less; and leave to act as the build's account, where the
  configuration names it.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict

import pulumi
from pulumi_gcp import cloudrunv2, projects, serviceaccount

from infra.model import BuildTrigger, CloudRunJob, Start, Workflow

_JOB_ROLES = ("roles/run.jobsExecutorWithOverrides", "roles/run.viewer")


_COMPUTE = "developer.gserviceaccount.com"
"""Addresses of Compute Engine's default accounts have no project's id; IAM takes `-` for it."""


def as_setting(starts: Mapping[str, Start]) -> Mapping[str, object]:
    """Return what `ONCE_STARTS` says: each function's target, as the handler reads it."""
    return {function: _target(start) for function, start in starts.items()}


def _target(start: Start) -> Mapping[str, object]:
    match start:
        case Workflow():
            return {"workflow": asdict(start)}
        case CloudRunJob():
            return {"cloudRunJob": asdict(start)}
        case BuildTrigger():
            told = {key: value for key, value in asdict(start).items() if value is not None}
            return {"buildTrigger": {k: v for k, v in told.items() if k != "service_account"}}


def grant(
    starts: Collection[Start], member: str, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Let an account start these targets, each role once."""
    granted: list[pulumi.Resource] = []
    on_projects = sorted({wanted for start in starts if (wanted := _on_project(start))})
    for role, project in on_projects:
        granted.append(
            projects.IAMMember(
                f"proxy-{role.rpartition('/')[2]}-{project}",
                project=project,
                role=role,
                member=member,
                opts=opts,
            )
        )
    for full_name in sorted({start.name for start in starts if isinstance(start, CloudRunJob)}):
        _, project, _, location, _, name = full_name.split("/")
        granted.extend(
            cloudrunv2.JobIamMember(
                f"proxy-{role.rpartition('/')[2]}-{project}-{location}-{name}",
                project=project,
                location=location,
                name=name,
                role=role,
                member=member,
                opts=opts,
            )
            for role in _JOB_ROLES
        )
    builders = {start.service_account for start in starts if isinstance(start, BuildTrigger)}
    for email in sorted(filter(None, builders)):
        domain = email.partition("@")[2]
        owner = "-" if domain == _COMPUTE else domain.partition(".")[0]
        granted.append(
            serviceaccount.IAMMember(
                f"proxy-acts-as-{email}",
                service_account_id=f"projects/{owner}/serviceAccounts/{email}",
                role="roles/iam.serviceAccountUser",
                member=member,
                opts=opts,
            )
        )
    return granted


def _on_project(start: Start) -> tuple[str, str] | None:
    project = start.name.split("/")[1]
    match start:
        case Workflow():
            return "roles/workflows.invoker", project
        case BuildTrigger():
            return "roles/cloudbuild.builds.editor", project
        case CloudRunJob():
            return None
