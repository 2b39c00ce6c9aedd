"""The real Pulumi engine in tests, with stand-ins for the provider plugins.

Two ways in. A program given as text::

    engine = Engine(tmp_path)
    stack = engine.program('''
        import pulumi_gcp as gcp
        gcp.pubsub.Topic("orders", name="orders")
    ''')
    result = stack.preview(policies=REPOSITORY / "policies", policy_config={"all": "mandatory"})
    result.violations   # [Violation(policy="pubsub-...", level="mandatory", resource="orders")]
    result.ok           # False where the engine refused or stopped

and an example stack of the repository, from a copy, with changed or added configuration::

    stack = engine.example("dev", config={"image": IMAGE})
    stack.up().raise_for_status()
    assert stack.preview().changed == []
    stack.configure({"jobs": [...]})
    stack.destroy()

What the methods return is a `Result`: `steps` (one per resource, ``same`` included), `changed`
(the steps that do something), `diagnostics`, `violations`, `remediations`, `outputs`, `text`.
Unknown values of a preview are `UNKNOWN`. What exists in the fake project is `engine.things()`,
every call to the providers `engine.calls()`.

State, configuration and the engine's home folder are under `tmp_path`; nothing of the machine's own
Pulumi is read or written. The stand-ins behave as `tests/support/stand_in/gcp.py` says: they refuse
unknown properties, wrong types and missing ones (also nested), an API that is not on, an account
that does not exist, a second resource of one id. `Engine(tmp_path)` has every API on; an example
stack's project has only what a new project has, plus `PREREQUISITES`.

One preview takes about three seconds; the policy pack's interpreter adds about two.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import textwrap
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools import pulumi as cli

REPOSITORY = Path(__file__).resolve().parents[2]
VIRTUALENV = REPOSITORY / ".venv"
"""Programs and stand-ins run in it, whatever environment the tests themselves run in."""

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
PROJECT, REGION, PROJECT_NUMBER = "a-project", "europe-west1", "123456789012"
EXISTING_TOPICS = (f"projects/{PROJECT}/topics/a-topic", "projects/other-project/topics/news")
"""What the stack with everything has roles on."""
PROVIDER = {"gcp:project": PROJECT, "gcp:region": REGION}
IMAGE = "europe-docker.pkg.dev/a-project/images/handler@sha256:" + "0" * 64

PREREQUISITES = ("serviceusage.googleapis.com", "cloudresourcemanager.googleapis.com")
"""The APIs that must be on before the first ``up``: enabling the others goes through them."""
NEW_PROJECT = ("logging.googleapis.com", "monitoring.googleapis.com", "storage.googleapis.com")

SECONDS_FOR_ONE_RUN = 300.0
"""A run that takes longer hangs."""


@dataclass(frozen=True)
class Step:
    """What the engine does, or would do, to one resource."""

    operation: str
    """``create``, ``update``, ``same``, ``delete``, ``replace``, ``refresh``, ..."""
    type: str
    """Such as ``gcp:cloudscheduler/job:Job``."""
    name: str
    """The logical name in the program."""
    urn: str
    inputs: dict[str, Any]
    """After the step; before it where the step deletes."""
    outputs: dict[str, Any]
    protect: bool
    custom: bool
    """False for components and the stack itself."""
    differing: tuple[str, ...]
    """The properties that differ."""


@dataclass(frozen=True)
class Diagnostic:
    """One line of the engine, the program, a provider or a policy pack."""

    severity: str
    message: str
    resource: str


@dataclass(frozen=True)
class Violation:
    """One policy that a resource or the stack breaks; also a policy that could not run."""

    policy: str
    level: str
    """``advisory``, ``mandatory``."""
    resource: str
    """Logical name; empty for a stack rule that reports no resource."""
    type: str
    message: str


@dataclass(frozen=True)
class Result:
    """One run of the engine."""

    ok: bool
    text: str
    """Everything that the command printed."""
    steps: list[Step] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    remediations: list[dict[str, Any]] = field(default_factory=list)
    """The engine's events: ``policyName``, ``resourceUrn``, ``before``, ``after``."""
    operations: dict[str, int] = field(default_factory=dict)
    """Counts as in the summary: ``{"create": 12}``, components and the stack included."""

    @property
    def changed(self) -> list[Step]:
        """The steps that do something to a resource of a provider."""
        quiet = ("same", "refresh", "read")
        return [step for step in self.resources if step.operation not in quiet]

    @property
    def resources(self) -> list[Step]:
        """Every resource of a provider, without components, the stack and the providers."""
        return [step for step in self.steps if step.custom and not step.type.startswith("pulumi:")]

    def of(self, type_: str) -> list[Step]:
        """Return the resources of a type; its last part is enough (``job:Job``)."""
        return [step for step in self.resources if step.type.endswith(type_)]

    def one(self, type_: str, name: str = "") -> Step:
        """Return the only resource of a type, or the one whose logical name is `name`."""
        (step,) = [step for step in self.of(type_) if name in ("", step.name)]
        return step

    @property
    def errors(self) -> str:
        """The messages of severity error, as one text."""
        return "\n".join(one.message for one in self.diagnostics if one.severity == "error")

    @property
    def warnings(self) -> str:
        """The messages of severity warning, as one text."""
        return "\n".join(one.message for one in self.diagnostics if one.severity == "warning")

    @property
    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        (stack,) = [step for step in self.steps if step.type == "pulumi:pulumi:Stack"]
        return stack.outputs

    def raise_for_status(self) -> Result:
        """Fail with the engine's text where it failed; return this result."""
        assert self.ok, self.text
        return self


class Engine:
    """A backend, a fake project and a home of its own.

    Parameters
    ----------
    folder
        Usually pytest's ``tmp_path``.
    apis
        The APIs that are on from the start; ``*`` is all of them.
    """

    def __init__(self, folder: Path, apis: tuple[str, ...] = ("*",)) -> None:
        self.folder = folder
        self.apis = apis
        self._cloud = folder / "cloud"
        for made in (self._cloud, folder / "state", folder / "home"):
            made.mkdir(parents=True, exist_ok=True)
        self._switch_on(apis)

    def copy(self, folder: Path) -> Engine:
        """Return an engine in another folder with all that this one has: stacks, project, calls."""
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        return Engine(folder, self.apis)

    def program(
        self, source: str, config: dict[str, Any] | None = None, name: str = "program"
    ) -> Stack:
        """Return a stack of a one-file program.

        Parameters
        ----------
        source
            The text of ``__main__.py``; its common indentation is taken off.
        config
            Stack configuration; the provider's project and region are given.
        name
            Project and folder. A second call with the same name changes the program of the first.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "__main__.py").write_text(textwrap.dedent(source))
        runtime = {"name": "python", "options": {"virtualenv": str(VIRTUALENV)}}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": name, "runtime": runtime}))
        stack = Stack(self, folder, "test")
        stack.configure({**PROVIDER, **(config or {})})
        return stack

    def repository(self) -> Path:
        """Return the folder with a copy of what this repository deploys; made on the first call."""
        folder = self.folder / "repository"
        if not folder.exists():
            folder.mkdir()
            for name in ("infra", "handler", "examples"):
                shutil.copytree(
                    REPOSITORY / name,
                    folder / name,
                    ignore=shutil.ignore_patterns("__pycache__", ".venv", ".local"),
                )
            for file in (*REPOSITORY.glob("Pulumi*.yaml"), REPOSITORY / "requirements.txt"):
                shutil.copy(file, folder)
            (folder / ".venv").symlink_to(VIRTUALENV, target_is_directory=True)
        return folder

    def example(self, stack: str, config: dict[str, Any] | None = None) -> Stack:
        """Return an example stack of this repository, from a copy of what it deploys.

        Parameters
        ----------
        stack
            ``dev`` or ``prod``; any other name starts as a copy of dev's configuration.
        config
            Added to the stack's file, over what stands there: keys with a namespace as in the file
            (``gcp:project``), without one for the project's own (``image``). The provider's project
            and region and ``projectNumber`` are given.
        """
        folder = self.repository()
        if not (folder / f"Pulumi.{stack}.yaml").exists():
            shutil.copy(folder / "Pulumi.dev.yaml", folder / f"Pulumi.{stack}.yaml")
        self._switch_on((*PREREQUISITES, *NEW_PROJECT))
        made = Stack(self, folder, stack)
        made.configure({**PROVIDER, "projectNumber": PROJECT_NUMBER, **(config or {})})
        return made

    def everything(self, config: dict[str, Any] | None = None) -> Stack:
        """Return a stack that uses every key of the configuration (everything.yaml)."""
        for topic in EXISTING_TOPICS:
            self.find("gcp:pubsub/topic:Topic", topic)
        file = Path(__file__).with_name("everything.yaml")
        return self.example("everything", {**yaml.safe_load(file.read_text()), **(config or {})})

    def calls(self) -> list[dict[str, Any]]:
        """Return every call to the stand-ins: ``method``, ``type``, ``name``, ``inputs``, ..."""
        file = self._cloud / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def things(self) -> dict[str, dict[str, Any]]:
        """Return what exists in the project: id to ``type``, ``inputs`` and ``outputs``."""
        things: dict[str, dict[str, Any]] = {}
        for provider in ("gcp", "docker-build"):
            file = self._cloud / f"{provider}.json"
            for one in json.loads(file.read_text()) if file.exists() else []:
                things[one["id"]] = one
        return things

    def lose(self, id_: str) -> None:
        """Delete something behind Pulumi's back."""
        file = self._cloud / "gcp.json"
        left = [one for one in json.loads(file.read_text()) if one["id"] != id_]
        file.write_text(json.dumps(left))

    def find(self, type_: str, id_: str) -> None:
        """Let something exist that no stack has made."""
        file = self._cloud / "gcp.json"
        there = json.loads(file.read_text()) if file.exists() else []
        file.write_text(
            json.dumps([*there, {"type": type_, "id": id_, "inputs": {}, "outputs": {}}])
        )

    def _switch_on(self, apis: tuple[str, ...]) -> None:
        project = {"number": PROJECT_NUMBER, "apis": apis}
        (self._cloud / "project.json").write_text(json.dumps(project))

    def environment(self) -> dict[str, str]:
        """Return the environment of the CLI."""
        own = _environment()
        path = os.pathsep.join([str(Path(__file__).with_name("bin")), own["PATH"]])
        return {
            **own,
            "PATH": path,
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            # Without it the CLI has no --event-log.
            "PULUMI_DEBUG_COMMANDS": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
            "STAND_IN_CLOUD": str(self._cloud),
            "STAND_IN_PYTHON": str(VIRTUALENV / "bin" / "python"),
        }


class Stack:
    """One stack of a project in a folder. Made by `Engine`."""

    def __init__(self, engine: Engine, folder: Path, name: str) -> None:
        self.engine = engine
        self.folder = folder
        self.name = name
        project = yaml.safe_load((folder / "Pulumi.yaml").read_text())["name"]
        state = engine.folder / "state" / ".pulumi" / "stacks" / project / f"{name}.json"
        if not state.exists():
            self._run("stack", "init", name, "--no-select").raise_for_status()

    @property
    def settings(self) -> dict[str, Any]:
        """The stack's configuration as it stands in its file, the project's own keys bare."""
        own = yaml.safe_load((self.folder / "Pulumi.yaml").read_text())["name"] + ":"
        config = yaml.safe_load(self._file.read_text())["config"]
        return {key.removeprefix(own): value for key, value in config.items()}

    def configure(self, config: dict[str, Any]) -> None:
        """Set configuration keys; None removes one.

        The CLI writes the project's own keys with its name in front when it changes the file, so a
        bare key goes where the file has it.
        """
        content = yaml.safe_load(self._file.read_text()) if self._file.exists() else None
        content = content or {}
        settings = content.setdefault("config", {})
        for key, value in config.items():
            written = [one for one in settings if one == key or one.rpartition(":")[2] == key]
            name = written[0] if written and ":" not in key else key
            if value is None:
                settings.pop(name, None)
            else:
                settings[name] = value
        self._file.write_text(yaml.safe_dump(content, sort_keys=False))

    def preview(
        self, *, policies: Path | None = None, policy_config: Path | dict[str, Any] | None = None
    ) -> Result:
        """Run ``pulumi preview``, with a policy pack where its folder is given."""
        return self._operate("preview", *self._policy_options(policies, policy_config))

    def up(
        self, *, policies: Path | None = None, policy_config: Path | dict[str, Any] | None = None
    ) -> Result:
        """Run ``pulumi up`` without its preview, with a policy pack where its folder is given."""
        options = self._policy_options(policies, policy_config)
        return self._operate("up", "--yes", "--skip-preview", *options)

    def refresh(self) -> Result:
        """Run ``pulumi refresh``: state from what exists."""
        return self._operate("refresh", "--yes", "--skip-preview")

    def destroy(self) -> Result:
        """Run ``pulumi destroy``, with its preview: there the engine finds what is protected."""
        return self._operate("destroy", "--yes")

    def command(self, *arguments: str) -> Result:
        """Run any other command of the CLI on this stack: ``state unprotect --all --yes``."""
        return self._run(*arguments, "--stack", self.name)

    def export(self) -> list[dict[str, Any]]:
        """Return the resources of the stack's state."""
        run = self.command("stack", "export").raise_for_status()
        deployment = json.loads(run.text)["deployment"]
        return list(deployment.get("resources") or [])

    @property
    def _file(self) -> Path:
        return self.folder / f"Pulumi.{self.name}.yaml"

    def _policy_options(
        self, policies: Path | None, config: Path | dict[str, Any] | None
    ) -> list[str]:
        options = ["--policy-pack", str(policies)] if policies else []
        if isinstance(config, dict):
            file = self.engine.folder / "policy-config.json"
            file.write_text(json.dumps(config))
            config = file
        return options + (["--policy-pack-config", str(config)] if config else [])

    def _operate(self, *arguments: str) -> Result:
        log = self.engine.folder / "events.jsonl"
        log.unlink(missing_ok=True)
        run = self._run(*arguments, "--stack", self.name, "--event-log", str(log))
        events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return _read(run, events)

    def _run(self, *arguments: str) -> Result:
        process = subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env=self.engine.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            text, _ = process.communicate(timeout=SECONDS_FOR_ONE_RUN)
        finally:
            # A plugin that outlives its engine would outlive the tests.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return Result(ok=process.returncode == 0, text=text)


@cache
def _environment() -> dict[str, str]:
    return cli.environment()


def _read(run: Result, events: list[dict[str, Any]]) -> Result:
    steps: dict[tuple[str, str], Step] = {}
    diagnostics, violations, remediations = [], [], []
    operations: dict[str, int] = {}
    for event in events:
        for kind in ("resourcePreEvent", "resOutputsEvent"):
            if kind in event:
                step = _step(event[kind]["metadata"])
                steps[step.urn, step.operation] = step
        if "diagnosticEvent" in event:
            one = event["diagnosticEvent"]
            message = one["message"].strip()
            # The engine says of every plugin on the PATH that it takes it from there.
            told = message and one["severity"] != "debug"
            if told and not message.startswith("using pulumi-resource-"):
                diagnostics.append(Diagnostic(one["severity"], message, _name(one.get("urn", ""))))
        if "policyEvent" in event:
            one = event["policyEvent"]
            level = {"warning": "advisory"}.get(one["enforcementLevel"], one["enforcementLevel"])
            urn = one.get("resourceUrn", "")
            violations.append(
                Violation(one["policyName"], level, _name(urn), _type(urn), one["message"])
            )
        if "policyRemediationEvent" in event:
            remediations.append(event["policyRemediationEvent"])
        if "summaryEvent" in event:
            operations = event["summaryEvent"]["resourceChanges"]
    return Result(
        run.ok,
        run.text,
        list(steps.values()),
        diagnostics,
        violations,
        remediations,
        operations,
    )


def _step(metadata: dict[str, Any]) -> Step:
    state = metadata.get("new") or metadata.get("old") or {}
    return Step(
        operation=metadata["op"],
        type=metadata["type"],
        name=_name(metadata["urn"]),
        urn=metadata["urn"],
        inputs=state.get("inputs") or {},
        outputs=state.get("outputs") or {},
        protect=bool(state.get("protect")),
        custom=bool(state.get("custom")),
        differing=tuple(metadata.get("diffs") or ()),
    )


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]


def _type(urn: str) -> str:
    return urn.split("::")[2].rpartition("$")[2] if urn.count("::") >= 3 else ""
