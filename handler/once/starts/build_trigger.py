"""A trigger of Cloud Build: the token is a substitution of the build."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from once.starts.target import Call, Json, Target, text_in

TOKEN = "_IDEMPOTENCY_TOKEN"  # noqa: S105


@dataclass(frozen=True)
class BuildTrigger(Target):
    """Runs a build trigger.

    Parameters
    ----------
    branch, tag
        What to build, at most one of them; none: what the trigger itself says.
    substitutions
        Substitutions over the trigger's own, beside the token.
    """

    api: ClassVar[str] = "cloudbuild"
    listed: ClassVar[str] = "builds"
    starting_role: ClassVar[str] = "roles/cloudbuild.builds.editor"
    looking_role: ClassVar[str] = "roles/cloudbuild.builds.editor"

    branch: str | None
    tag: str | None
    substitutions: dict[str, str]

    @property
    def _parts(self) -> tuple[str, str, str]:
        _, project, _, location, _, trigger = self.name.split("/")
        return project, location, trigger

    def start(self, token: str) -> Call:
        project, _, trigger = self._parts
        source: dict[str, Any] = {"substitutions": {**self.substitutions, TOKEN: token}}
        if self.branch:
            source["branchName"] = self.branch
        if self.tag:
            source["tagName"] = self.tag
        body = {"projectId": project, "triggerId": trigger, "source": source}
        return Call(f"v1/{self.name}:run", {}, body)

    def started(self, answer: Json) -> str | None:
        if "error" in answer:
            return None
        build = text_in(answer, "metadata", "build", "name")
        return build or text_in(answer, "name")

    def look(self, since: datetime) -> Call:
        """Return the request: the location's builds, newest first.

        The API's filter knows no substitutions, and knows a trigger by its id alone, while the
        configuration may have named it.
        """
        project, location, _ = self._parts
        query: dict[str, str | int] = {
            "projectId": project,
            "pageSize": 100,
            "fields": "builds(name,createTime,substitutions),nextPageToken",
        }
        return Call(f"v1/projects/{project}/locations/{location}/builds", query)

    def carries(self, operation: Json, token: str) -> bool:
        return text_in(operation, "substitutions", TOKEN) == token
