"""One provider plugin: ``python -m tests.support.stand_in gcp``; prints its port, talks gRPC."""

# ruff: noqa: N802 (the names are those of the gRPC service)

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from tests.support.stand_in import docker_build, gcp, schema
from tests.support.stand_in.cloud import Cloud, RefusedError, Thing
from tools.language_host import serve

FORMATTED_OUTPUT = "Calling __str__ on an Output"


class StandIn(provider_pb2_grpc.ResourceProviderServicer):
    """One provider: the schema's rules for every type, and those of `gcp` and `docker_build`."""

    def __init__(self, provider: str, folder: Path) -> None:
        self.package = schema.PACKAGES[provider]
        self.cloud = Cloud(folder, provider)
        self.config: dict[str, Any] = {}

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse(accept_resources=False, accept_secrets=False)

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        # The SDK asks for the provider of its own version.
        return plugin_pb2.PluginInfo(version=metadata.version(self.package))

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse()

    def Configure(self, request: Any, context: Any) -> Any:
        self.config = _plain(request.args)
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Check(self, request: Any, context: Any) -> Any:
        inputs, olds = _plain(request.news), _plain(request.olds)
        kind = self._kind(request.type)
        failures: list[tuple[str, str]] = []
        try:
            fields = schema.resource(request.type).fields
            if kind.name in fields and not inputs.get(kind.name):
                suffix = hashlib.sha256(request.randomSeed or request.urn.encode()).hexdigest()[:7]
                inputs[kind.name] = olds.get(kind.name) or f"{request.name}-{suffix}"
            failures += schema.problems(fields, inputs)
            failures += _formatted_outputs(inputs)
            if not failures:
                failures += kind.check(inputs)
        except schema.UnknownTypeError as error:
            failures.append(("", str(error)))
        self._record("check", request, inputs, failures=failures)
        return provider_pb2.CheckResponse(
            inputs=_struct(inputs),
            failures=[
                provider_pb2.CheckFailure(property=name, reason=f"{name}: {reason}")
                for name, reason in failures
            ],
        )

    def Diff(self, request: Any, context: Any) -> Any:
        old, new = _plain(request.old_inputs), _plain(request.news)
        kind = self._kind(request.type)
        changed = sorted(
            name
            for name in (old.keys() | new.keys())
            if old.get(name) != new.get(name) and name not in request.ignoreChanges
        )
        if request.type == docker_build.IMAGE:
            built = _plain(request.olds).get("contextHash")
            if built != docker_build.context_hash(new):
                changed.append("contextHash")
        replaces = [name for name in changed if "*" in kind.fixed or name in kind.fixed]
        return provider_pb2.DiffResponse(
            changes=(
                provider_pb2.DiffResponse.DIFF_SOME
                if changed
                else provider_pb2.DiffResponse.DIFF_NONE
            ),
            diffs=changed,
            replaces=replaces,
            # As the bridge does where a name that it could generate was given: two cannot exist.
            deleteBeforeReplace=bool(replaces) and _given(new.get(kind.name), request.name),
        )

    def Create(self, request: Any, context: Any) -> Any:
        inputs = _plain(request.properties)
        self._record("create", request, inputs, preview=request.preview)
        with _refusals(context):
            kind = self._kind(request.type)
            values = self._filled(request.type, inputs)
            if request.type == docker_build.IMAGE:
                docker_build.check(inputs, preview_builds=request.preview)
            if request.preview:
                return provider_pb2.CreateResponse(
                    id="", properties=_struct(self._previewed(request.type, values))
                )
            if request.type.startswith("gcp:"):
                gcp.refusal(kind, values, self.cloud)
            outputs = self._outputs(request.type, values)
            known = {"type": request.type, "name": request.name, "condition": "", **outputs}
            id_ = kind.id.format(**known).rstrip("/")
            if not kind.idempotent and self.cloud.find(request.type, id_):
                raise RefusedError(f"Error 409: {id_} already exists")
            self.cloud.put(Thing(request.type, id_, inputs, outputs))
            return provider_pb2.CreateResponse(id=id_, properties=_struct(outputs))
        raise AssertionError

    def Update(self, request: Any, context: Any) -> Any:
        inputs, before = _plain(request.news), _plain(request.olds)
        self._record("update", request, inputs, preview=request.preview)
        with _refusals(context):
            values = self._filled(request.type, inputs)
            if request.type == docker_build.IMAGE:
                docker_build.check(inputs, preview_builds=request.preview)
            computed = {
                name: value
                for name, value in before.items()
                if name not in schema.resource(request.type).fields
            }
            if request.preview:
                if request.type == docker_build.IMAGE:
                    computed = dict.fromkeys(computed, schema.UNKNOWN)
                return provider_pb2.UpdateResponse(properties=_struct({**computed, **values}))
            if self.cloud.find(request.type, request.id) is None:
                raise RefusedError(f"Error 404: {request.id} was not found")
            if request.type.startswith("gcp:"):
                gcp.refusal(self._kind(request.type), values, self.cloud)
            outputs = {**computed, **self._outputs(request.type, values)}
            self.cloud.put(Thing(request.type, request.id, inputs, outputs))
            return provider_pb2.UpdateResponse(properties=_struct(outputs))
        raise AssertionError

    def Read(self, request: Any, context: Any) -> Any:
        thing = self.cloud.find(request.type, request.id)
        self._record("read", request, {}, found=thing is not None)
        if thing is None:
            return provider_pb2.ReadResponse(id="")
        return provider_pb2.ReadResponse(
            id=thing.id, properties=_struct(thing.outputs), inputs=_struct(thing.inputs)
        )

    def Delete(self, request: Any, context: Any) -> Any:
        state = _plain(request.properties)
        self._record("delete", request, {})
        with _refusals(context):
            kind = self._kind(request.type)
            policy = state.get("deletionPolicy") or kind.deletion_policy
            if policy == "PREVENT":
                raise RefusedError(
                    f"cannot destroy {request.id} without setting deletion_policy to DELETE and "
                    "running `terraform apply`"
                )
            keeps_api = request.type.endswith(":Service") and "disableOnDestroy" in (
                schema.resource(request.type).fields
            )
            if policy == "ABANDON" or (keeps_api and not state.get("disableOnDestroy")):
                return empty_pb2.Empty()
            if reason := kind.refuses_delete(state):
                raise RefusedError(reason)
            self.cloud.remove(request.type, request.id)
            return empty_pb2.Empty()
        raise AssertionError

    def Invoke(self, request: Any, context: Any) -> Any:
        arguments = _plain(request.args)
        self._record("invoke", request, arguments)
        answer = gcp.FUNCTIONS.get(request.tok)
        try:
            failures = list(schema.problems(schema.function(request.tok), arguments))
        except schema.UnknownTypeError as error:
            failures = [("", str(error))]
        if answer is None and not failures:
            failures = [("", f"{request.tok} is not played by the stand-in")]
        if failures or answer is None:
            return provider_pb2.InvokeResponse(
                failures=[
                    provider_pb2.CheckFailure(property=name, reason=reason)
                    for name, reason in failures
                ]
            )
        result = answer(arguments, self.config, self.cloud)
        answered: dict[str, Any] = {"return": _struct(result)}
        return provider_pb2.InvokeResponse(**answered)

    def _kind(self, token: str) -> gcp.Kind:
        if token == docker_build.IMAGE:
            return gcp.Kind(id="{digest}", name="", idempotent=True)
        return gcp.KINDS.get(token, gcp.GENERIC)

    def _filled(self, token: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """Add what the provider takes from its own configuration."""
        values = {name: value for name, value in inputs.items() if value is not None}
        known = schema.resource(token)
        for name, source in (("project", "project"), ("region", "region"), ("location", "region")):
            if name in known.fields and name in known.outputs and name not in values:
                if source not in self.config:
                    raise RefusedError(f"{name}: required field is not set")
                values[name] = self.config[source]
        values.setdefault("database", "(default)") if "database" in known.fields else None
        return values

    def _outputs(self, token: str, values: dict[str, Any]) -> dict[str, Any]:
        if token == docker_build.IMAGE:
            computed = docker_build.outputs(values)
        else:
            computed = self._kind(token).computed(values, self.cloud)
        left = {
            name: _some(kind, name)
            for name, kind in schema.resource(token).outputs.items()
            if name not in values and name not in schema.resource(token).fields
        }
        return {**left, **values, **computed}

    def _previewed(self, token: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return what the provider knows of a resource that it has not created."""
        known = schema.resource(token)
        unknown = dict.fromkeys(known.outputs.keys() - known.fields.keys(), schema.UNKNOWN)
        kind = self._kind(token)
        told = {}
        if kind.known_in_preview and not _contains_unknown(values):
            computed = kind.computed(values, self.cloud)
            told = {name: computed[name] for name in kind.known_in_preview}
        return {**unknown, **values, **told}

    def _record(self, method: str, request: Any, inputs: dict[str, Any], **more: Any) -> None:
        self.cloud.record(
            method=method,
            type=getattr(request, "type", "") or getattr(request, "tok", ""),
            name=getattr(request, "name", ""),
            id=getattr(request, "id", ""),
            inputs=inputs,
            **more,
        )


class _refusals:  # noqa: N801
    """Turn a refusal into the error that the engine shows."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, (RefusedError, schema.UnknownTypeError)):
            self.context.abort(grpc.StatusCode.UNKNOWN, str(error))


def _given(name: Any, logical: str) -> bool:
    """Tell whether a name was given, and not generated."""
    return bool(name) and not re.fullmatch(re.escape(logical) + "-[0-9a-f]{7}", str(name))


def _formatted_outputs(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and FORMATTED_OUTPUT in value:
        yield path, "contains the text of an Output that was formatted as a string"
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _formatted_outputs(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _formatted_outputs(inner, f"{path}[{index}]")


def _contains_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_contains_unknown, value.values()))
    if isinstance(value, list):
        return any(map(_contains_unknown, value))
    return isinstance(value, str) and value in schema.UNKNOWNS


def _some(kind: Any, name: str) -> Any:
    """Return a value of an output's type, for the outputs that nobody reads."""
    text = str(kind)
    makers: list[tuple[str, Callable[[], Any]]] = [
        ("Sequence", list),
        ("Mapping", dict),
        ("outputs.", dict),
        ("bool", bool),
        ("int", int),
        ("float", float),
    ]
    return next((make() for part, make in makers if part in text), name)


def _plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = _whole(json_format.MessageToDict(struct))
    return plain


def _whole(value: Any) -> Any:
    """Turn the doubles of protobuf back into the integers that were sent."""
    if isinstance(value, dict):
        return {name: _whole(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _struct(values: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(values, struct_pb2.Struct())


def main() -> None:
    """Serve as one of the engine's resource plugins."""
    stand_in = StandIn(sys.argv[1], Path(os.environ["STAND_IN_CLOUD"]))
    serve(partial(provider_pb2_grpc.add_ResourceProviderServicer_to_server, stand_in))


if __name__ == "__main__":
    main()
