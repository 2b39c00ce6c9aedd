"""A gRPC server between a handler and the Firestore emulator that plays a `Script`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.cloud.firestore_v1.types import BatchGetDocumentsRequest, CommitRequest

from tests.support.faults import PATIENCE_SECONDS, Dropped, Fault, Script, Step

_SERVICE = "/google.firestore.v1.Firestore/"
_OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


class FirestoreProxy:
    """Forwards the calls of Firestore's API to an emulator, with faults.

    Parameters
    ----------
    upstream
        The emulator's host:port.
    script
        What goes wrong.
    """

    def __init__(self, upstream: str, script: Script) -> None:
        self.script = script
        self._channel = grpc.insecure_channel(upstream, options=_OPTIONS)
        self._server = grpc.server(ThreadPoolExecutor(128), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((_Everything(self._play),))
        self.host = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> FirestoreProxy:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.script.clear()
        self._server.stop(None).wait()
        self._channel.close()

    def _play(self, method: str, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        step, run_id = _meaning(method, request)
        gone = threading.Event()
        context.add_callback(gone.set)
        fault = self.script.take(step, run_id)
        match fault:
            case Fault.REFUSE:
                context.abort(grpc.StatusCode.UNAVAILABLE, "refused by the script")
            case Fault.DENY:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "denied by the script")
            case Fault.HANG:
                gone.wait(PATIENCE_SECONDS)
                return
            case Fault.LATE:
                self.script.hold_late()
                try:
                    self._forward(method, request, ())
                except grpc.RpcError:
                    pass
                finally:
                    self.script.late_applied()
                return
            case Fault.STOP_BEFORE:
                try:
                    self.script.hold()
                except Dropped:
                    return
        refusal, answers = None, list[bytes]()
        try:
            answers = self._forward(method, request, context.invocation_metadata())
        except grpc.RpcError as error:
            refusal = error
        match fault:
            case Fault.LOSE:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost by the script")
            case Fault.LOSE_HANG:
                gone.wait(PATIENCE_SECONDS)
                return
            case Fault.STOP_AFTER:
                try:
                    self.script.hold()
                except Dropped:
                    return
        if refusal is not None:
            context.abort(refusal.code(), refusal.details() or "")
        yield from answers

    def _forward(self, method: str, request: bytes, metadata: Any) -> list[bytes]:
        call = self._channel.unary_stream(method, _same, _same)
        kept = tuple(
            (each.key, each.value)
            for each in metadata
            if not each.key.startswith(("grpc-", ":", "user-agent"))
        )
        return list(call(request, metadata=kept, timeout=PATIENCE_SECONDS))


class _Everything(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs only
    def __init__(self, play: Any) -> None:
        self._play = play

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        return grpc.unary_stream_rpc_method_handler(
            lambda request, context: self._play(method, request, context), _same, _same
        )


def _same(data: bytes) -> bytes:
    return data


def _meaning(method: str, request: bytes) -> tuple[Step, str]:
    """Return what a call means, and the id of its document."""
    if method == _SERVICE + "BatchGetDocuments":
        documents = BatchGetDocumentsRequest.deserialize(request).documents
        return Step.READ, documents[0].rsplit("/", 1)[-1]
    if method != _SERVICE + "Commit":
        return Step.OTHER, ""
    writes = CommitRequest.deserialize(request).writes
    if not writes:
        return Step.OTHER, ""
    write = writes[0]
    if len(writes) > 1:  # a transaction of a job's own; the protocol writes one record at a time
        return Step.OTHER, write.update.name.rsplit("/", 1)[-1]
    if write.delete:
        return Step.RELEASE, write.delete.rsplit("/", 1)[-1]
    run_id = write.update.name.rsplit("/", 1)[-1]
    status = write.update.fields.get("status")
    if status is not None and status.string_value in ("completed", "failed"):
        return Step.FINISH, run_id
    is_takeover = "update_time" in write.current_document
    return Step.TAKEOVER if is_takeover else Step.CLAIM, run_id
