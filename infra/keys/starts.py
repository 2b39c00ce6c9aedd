"""The key `start` of a job: a Google API to start once."""

from collections.abc import Callable, Collection, Mapping

from infra import contract, values
from infra.model import BuildTrigger, CloudRunJob, Start, Workflow
from infra.reading import (
    Section,
    json_value,
    listed,
    mapping,
    matching,
    text,
)


class StartReader:
    """Reads what jobs start.

    Parameters
    ----------
    project, region
        Where a target is that is not given by its full name.
    """

    def __init__(self, project: str, region: str) -> None:
        self.project = project
        self.region = region

    def read(self, section: Section) -> Start | None:
        """Read `start`, if the job has it."""
        start = section.section("start")
        if start is None:
            return None
        kinds: Mapping[str, Callable[[Section], Start]] = {
            "workflow": self._workflow,
            "cloudRunJob": self._cloud_run_job,
            "buildTrigger": self._build_trigger,
        }
        targets = {key: start.section(key) for key in kinds}
        start.finish()
        given = start.mappings(kinds)
        if len(given) != 1:
            start.problems.add(start.path, f"needs exactly one of {listed(kinds)}")
            return None
        target = targets[given[0]]
        if target is None:
            return None
        result = kinds[given[0]](target)
        target.finish()
        return result

    def _full_name(self, target: Section, collection: str) -> str:
        name = target.need("name", values.target_name, "", f"the {collection[:-1]}'s name")
        location = target.get("location", values.location, self.region)
        if "/" not in name:
            return f"projects/{self.project}/locations/{location}/{collection}/{name}"
        full = matching(
            rf"projects/[^/]+/locations/[^/]+/{collection}/[^/]+",
            f"is no full name: projects/P/locations/L/{collection}/N",
        )
        target.problems.check(target.at("name"), name, full)
        if "location" in target.raw:
            target.problems.add(target.at("location"), "stands in the full name already", location)
        return name

    def _workflow(self, target: Section) -> Workflow:
        argument = target.get("argument", _argument, None) or {}
        _refuse_token(target, "argument", argument)
        return Workflow(self._full_name(target, "workflows"), argument)

    def _cloud_run_job(self, target: Section) -> CloudRunJob:
        env = target.entries("env")
        _refuse_token(target, "env", env)
        return CloudRunJob(self._full_name(target, "jobs"), target.strings("args"), env)

    def _build_trigger(self, target: Section) -> BuildTrigger:
        substitutions = target.entries("substitutions", values.substitution)
        _refuse_token(target, "substitutions", substitutions)
        branch, tag = target.get("branch", text, None), target.get("tag", text, None)
        if branch and tag:
            target.problems.add(target.path, "has a branch and a tag; give one")
        account = target.get("serviceAccount", values.service_account, None)
        name = self._full_name(target, "triggers")
        return BuildTrigger(name, branch, tag, substitutions, account)


def _argument(value: object) -> Mapping[str, object]:
    json_value(value)
    return mapping(value)


def _refuse_token(target: Section, key: str, given: Collection[str]) -> None:
    token = contract.TOKEN_KEYS[key]
    if token in given:
        target.problems.add(
            f"{target.at(key)}.{token}", "is where the run's own token goes; use another name"
        )
