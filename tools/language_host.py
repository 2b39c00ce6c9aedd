#!/usr/bin/env python3
"""A Pulumi language host for Python, for a CLI that was built without one.

The engine starts it as ``pulumi-language-python`` from beside the CLI, reads the port from its
standard output and talks gRPC. It starts programs with Pulumi's own ``pulumi-language-python-exec``
and policy packs with the SDK's ``pulumi.policy``, each with the interpreter of the virtual
environment that the project or the pack names. It installs nothing.
"""

# ruff: noqa: N802 (the names are those of the gRPC service)

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from functools import partial
from pathlib import Path
from typing import IO, Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

EXECUTOR = Path(__file__).with_name("pulumi-language-python-exec")
ERROR_SHOWN = 32
"""The executor's exit code after it has told the user what was wrong."""


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """The calls that preview, up, refresh, destroy and a policy pack make."""

    def __init__(self, engine: str) -> None:
        self.engine = engine

    def Handshake(self, request: Any, context: Any) -> Any:
        self.engine = request.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="0.0.0")

    def About(self, request: Any, context: Any) -> Any:
        version = ".".join(map(str, sys.version_info[:3]))
        return language_pb2.AboutResponse(executable=sys.executable, version=version)

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPackagesResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        return language_pb2.GetProgramDependenciesResponse()

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        """Run a program to its end."""
        info = request.info
        try:
            python = _interpreter(info)
        except FileNotFoundError as missing:
            return language_pb2.RunResponse(error=str(missing))
        command = [
            python,
            "-u",
            str(EXECUTOR),
            *("--project", request.project),
            *("--root_directory", info.root_directory),
            *("--stack", request.stack),
            *("--parallel", str(request.parallel)),
            *("--dry_run", "true" if request.dryRun else "false"),
            *("--pwd", request.pwd or info.program_directory),
            *("--monitor", request.monitor_address),
            *("--engine", self.engine),
            *("--organization", request.organization),
            str(Path(info.program_directory, info.entry_point)),
        ]
        environment = {
            **os.environ,
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        process = subprocess.Popen(command, env=environment)
        context.add_callback(process.kill)
        code = process.wait()
        if code == ERROR_SHOWN:
            return language_pb2.RunResponse(bail=True)
        error = f"Program exited with non-zero exit code: {code}" if code else ""
        return language_pb2.RunResponse(error=error)

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """Run a policy pack and pass on what it prints; its first line is its port."""
        pack = request.info.program_directory
        try:
            python = _interpreter(request.info)
        except FileNotFoundError as missing:
            yield language_pb2.RunPluginResponse(stderr=f"{missing}\n".encode())
            yield language_pb2.RunPluginResponse(exitcode=1)
            return
        process = subprocess.Popen(
            [python, "-u", "-m", "pulumi.policy", *request.args, pack],
            cwd=request.pwd,
            env=dict(pair.split("=", 1) for pair in request.env) or None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        context.add_callback(process.kill)
        lines: queue.Queue[Any] = queue.Queue()

        def pump(stream: IO[bytes], name: str) -> None:
            for line in stream:
                lines.put(language_pb2.RunPluginResponse(**{name: line}))  # type: ignore[arg-type]
            lines.put(None)

        assert process.stdout is not None
        assert process.stderr is not None
        for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            threading.Thread(target=pump, args=(stream, name), daemon=True).start()
        open_streams = 2
        while open_streams:
            if line := lines.get():
                yield line
            else:
                open_streams -= 1
        yield language_pb2.RunPluginResponse(exitcode=process.wait())


def _interpreter(info: Any) -> str:
    virtualenv = dict(info.options).get("virtualenv", "")
    if not virtualenv:
        return sys.executable
    folder = Path(info.root_directory, virtualenv)
    python = folder / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(f"the virtual environment {folder} is missing: make it first")
    return str(python)


def serve(add: Callable[[grpc.Server], None]) -> None:
    """Serve a plugin until the engine ends this process, or has ended itself.

    Parameters
    ----------
    add
        Adds the plugin's service to the server.
    """
    engine = os.getppid()
    server = grpc.server(futures.ThreadPoolExecutor(16))
    add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    try:
        # An engine that was killed cannot end its plugins.
        while server.wait_for_termination(timeout=1) and os.getppid() == engine:
            pass
    except KeyboardInterrupt:
        server.stop(None)


def main() -> None:
    """Serve as the engine's language plugin."""
    host = LanguageHost(sys.argv[-1] if len(sys.argv) > 1 else "")
    serve(partial(language_pb2_grpc.add_LanguageRuntimeServicer_to_server, host))


if __name__ == "__main__":
    main()
