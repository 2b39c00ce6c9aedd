"""A Cloud Run job: the token is an environment variable of the execution's container."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from once.starts.target import Call, Json, Target, text_in

TOKEN = "IDEMPOTENCY_TOKEN"  # noqa: S105


@dataclass(frozen=True)
class CloudRunJob(Target):
    """Runs a job of one container, with overrides.

    Parameters
    ----------
    args
        Arguments in place of the job's own; none: the job's own.
    env
        Environment variables over the job's own, beside the token.
    """

    api: ClassVar[str] = "run"
    listed: ClassVar[str] = "executions"
    starting_role: ClassVar[str] = "roles/run.jobsExecutorWithOverrides"
    looking_role: ClassVar[str] = "roles/run.viewer"

    args: tuple[str, ...]
    env: dict[str, str]

    def start(self, token: str) -> Call:
        env = [{"name": name, "value": value} for name, value in {**self.env, TOKEN: token}.items()]
        override: dict[str, Any] = {"env": env}
        if self.args:
            override["args"] = list(self.args)
        return Call(f"v2/{self.name}:run", {}, {"overrides": {"containerOverrides": [override]}})

    def started(self, answer: Json) -> str | None:
        if "error" in answer:
            return None
        return text_in(answer, "metadata", "name") or text_in(answer, "name")

    def look(self, since: datetime) -> Call:
        """Return the request; the API has no filter and lists the newest first."""
        query: dict[str, str | int] = {
            "pageSize": 100,
            "showDeleted": "true",  # deleted meanwhile, it was started all the same
            "fields": "executions(name,createTime,template/containers/env),nextPageToken",
        }
        return Call(f"v2/{self.name}/executions", query)

    def carries(self, operation: Json, token: str) -> bool:
        template = operation.get("template")
        containers = template.get("containers") if isinstance(template, dict) else None
        return any(
            isinstance(variable, dict)
            and variable.get("name") == TOKEN
            and variable.get("value") == token
            for container in containers or []
            if isinstance(container, dict)
            for variable in container.get("env") or []
        )
