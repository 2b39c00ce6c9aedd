"""`make run`: plays Cloud Scheduler against the real handler on this machine."""

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex

from infra import contract
from infra.config import ConfigError
from infra.reading import written
from local import eventarc, road, starts
from local.handler import HandlerError, Instance, environment
from local.ledger import Functions, Injections, Ledger
from local.messages import Messages, apart
from local.plan import DEFAULT_SHARES, WORDS, plan
from local.player import Played, Player, Site
from local.report import Row, Screen
from local.road import Road
from local.scale import USUAL_SPEED, Scale, Stopwatch, scale
from local.stack import Stack, WiringError, load
from local.verdict import State, judge, missing_function
from tools.cache import ToolError
from tools.emulators import firestore_emulator, pubsub_emulator

ROOT = Path(__file__).resolve().parent.parent
_INSTANCES = 2
_SHOWN_SEED = 44
"""It gives each of the example jobs the faults at which it is worth looking."""
_AT_ONCE = 24
"""Runs and messages that are played at the same time; most of them wait."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play a stack.

    Returns
    -------
    int
        The exit code. 0: every promise was kept; 1: one was not, or a run took no effect; 2: it
        could not be played, the line says why.
    """
    options = _parse(arguments)
    try:
        with ExitStack() as closing:
            return _play(options, closing)
    except (ConfigError, WiringError, HandlerError, ToolError) as error:
        print(f"local: {error}", file=sys.stderr)
        return 2


def _play(options: argparse.Namespace, closing: ExitStack) -> int:
    screen = Screen()
    stopwatch = Stopwatch()
    stack = load(ROOT, options.stack)
    speed = options.speed or stopwatch.speed()
    runs = plan(
        stack.jobs,
        slots=options.slots,
        forced=options.forced,
        shares=options.shares,
        seed=options.seed,
        now=datetime.now(UTC),
    )
    if not (runs or stack.pushes or stack.triggers):
        raise WiringError(f"stack {stack.name} has neither a job nor an event to be played")
    scales = {name: scale(each.lease, speed) for name, each in stack.services.items()}
    _introduce(screen, stack, scales, options)

    folder = _folder()
    ledger, injections = Ledger(folder), Injections(folder)
    messages = road.plan(stack.pushes, options.events, options.shares)
    events = road.plan(stack.triggers, options.events, options.shares)
    host = _bring_emulators(options.store, bool(messages), screen, closing)
    sites = _open_sites(stack, scales, folder, options.store, ledger, injections, closing)
    pool = ThreadPoolExecutor(_AT_ONCE)
    player = Player(sites, injections, ledger, screen.event)
    closing.callback(_end, player, sites.values(), pool)
    starting = [pool.submit(each.address) for site in sites.values() for each in site.instances]
    plays: list[Callable[[], Played]] = [partial(player.play, run) for run in runs]
    way = Road(sites, injections, screen.event)
    closing.callback(way.stop)
    plays += [partial(eventarc.play, event, way) for event in events]
    if host:
        pubsub = Messages(host, folder.name, way)
        pubsub.open(stack.pushes, {name: each.factor for name, each in scales.items()}, closing)
        plays += [partial(pubsub.play, message) for message in messages]
    for instance in starting:
        instance.result()
    _check_functions(stack, Functions(folder))
    screen.line()

    playing = [pool.submit(play) for play in plays]
    rows: dict[Future[Played], Row] = {}
    for future in as_completed(playing):
        played = future.result()
        rows[future] = played, judge(played, ledger.of(played.occasion, played.function))
        screen.result(*rows[future])
    screen.table([rows[future] for future in playing])
    screen.line(f"Logs, records and the jobs' files: {_shown(folder)}")
    bad = {State.WRONG, State.NO_EFFECT}
    return 1 if any(verdict.state in bad for _, verdict in rows.values()) else 0


def _check_functions(stack: Stack, functions: Functions) -> None:
    """Find jobs without a function before anything is played."""
    problems = []
    for job in stack.jobs:
        known = functions.read(stack.services[job.service].full_name)
        name = job.headers.get(contract.FUNCTION_HEADER) or job.name
        if name not in known:
            problem = f"no function is registered as {name!r}; known: {', '.join(known) or 'none'}"
            problems.append(missing_function(problem, job.label))
    if problems:
        raise WiringError("\n".join(problems))


def _bring_emulators(store: str, messages: bool, screen: Screen, closing: ExitStack) -> str | None:
    """Bring what Google has emulators for; the handler's clients find them by the environment.

    Returns
    -------
    str or None
        Where Pub/Sub is. Without its emulator the rest is played all the same.
    """
    if store == "firestore":
        os.environ["FIRESTORE_EMULATOR_HOST"] = closing.enter_context(firestore_emulator())
    if not messages:
        return None
    try:
        host = closing.enter_context(pubsub_emulator())
    except ToolError as error:
        screen.line(f"  note: messages are not played: {error}")
        return None
    os.environ["PUBSUB_EMULATOR_HOST"] = host
    return host


def _end(player: Player, sites: Iterable[Site], pool: ThreadPoolExecutor) -> None:
    """Let what is under way end at its next step, which breaks off at once."""
    player.stop()
    for site in sites:
        site.close()
    pool.shutdown(cancel_futures=True)


def _open_sites(
    stack: Stack,
    scales: Mapping[str, Scale],
    folder: Path,
    store: str,
    ledger: Ledger,
    injections: Injections,
    closing: ExitStack,
) -> dict[str, Site]:
    """Prepare the services, with the store and the APIs that they need; nothing is started yet."""
    targets = [each for service in stack.services.values() for each in service.starts.values()]
    endpoints = starts.serve(targets, ledger, injections, closing)
    sites = {}
    for name, service in stack.services.items():
        own = service.env.get
        replaced = {
            # A database of its own, since an emulator may have been used before.
            contract.STORE: f"{own(contract.STORE)}-{folder.name}"
            if store == "firestore"
            else f"sqlite:///{folder}/runs.db",
            contract.EVENTS: apart(own(contract.EVENTS, ""), folder.name),
        }
        env = environment(service, scales[name], folder, replaced)
        if service.starts:
            env[starts.ENDPOINTS] = endpoints
        *instances, doomed = (
            Instance(f"{name} {number}", folder, env) for number in range(1, _INSTANCES + 2)
        )
        sites[name] = Site(scales[name], instances, doomed, threading.Lock())
    return sites


def _introduce(
    screen: Screen, stack: Stack, scales: dict[str, Scale], options: argparse.Namespace
) -> None:
    store = "the Firestore emulator" if options.store == "firestore" else "SQLite"
    screen.line(
        f"Cloud Scheduler, played against the real handler: stack {stack.name}, "
        f"{len(stack.jobs)} jobs, records in {store}, seed {options.seed}"
    )
    for name, service in stack.services.items():
        scale = scales[name]
        screen.line(
            f"  {name}: timeout {written(service.timeout)}, lease {written(service.lease)}; "
            f"played {scale.factor:.0f} times faster: {scale.seconds(service.timeout):.1f} s, "
            f"{scale.lease_seconds} s"
        )
        for variable in service.secrets:
            if variable not in os.environ:
                screen.line(f"  {name}: export {variable}, a secret, if a job reads it")
    screen.line(
        "  scaled: attempt deadline, lease, back-offs, retry window; "
        "as deployed: everything else, and the slots are real ones of the recent past"
    )
    for text in stack.notes:
        screen.line(f"  note: {text}")
    containers = (_INSTANCES + 1) * len(stack.services)
    screen.line(f"  starting {containers} containers; {len(stack.services)} of them will be killed")


def _folder() -> Path:
    """Make the folder of this run; databases and topics are called after it."""
    stamp = datetime.now(UTC).strftime("%m%d-%H%M%S")
    folder = ROOT / ".local" / f"{stamp}-{token_hex(4)}"
    folder.mkdir(mode=0o700, parents=True)
    return folder


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local",
        description="Plays Cloud Scheduler against the real handler on this machine.",
    )
    parser.add_argument(
        "--stack", metavar="NAME", default="dev", help="of Pulumi.NAME.yaml (default: %(default)s)"
    )
    parser.add_argument(
        "--store",
        choices=["sqlite", "firestore"],
        default="sqlite",
        help="where records stand; firestore is Google's emulator (default: %(default)s)",
    )
    parser.add_argument(
        "--slots",
        metavar="N",
        type=_whole,
        default=4,
        help="runs of each job (default: %(default)s)",
    )
    parser.add_argument(
        "--forced",
        metavar="N",
        type=_whole,
        default=1,
        help="forced runs of each job (default: %(default)s)",
    )
    parser.add_argument(
        "--events",
        metavar="N",
        type=_whole,
        default=5,
        help="events for each subscription and trigger (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=int,
        default=_SHOWN_SEED,
        help="the same seed gives the same faults (default: %(default)s)",
    )
    parser.add_argument(
        "--speed",
        metavar="X",
        type=_positive,
        help="how many times faster leases and retries are played "
        f"(default: {USUAL_SPEED:g}, less on a busy machine)",
    )
    group = parser.add_argument_group("the share of the runs, 0 to 1, for which this goes wrong")
    for fault, share in DEFAULT_SHARES.items():
        group.add_argument(
            f"--{fault}",
            metavar="SHARE",
            type=_share,
            default=share,
            help=f"{WORDS[fault].long} (default: {share})",
        )
    options = parser.parse_args(arguments)
    options.shares = {fault: getattr(options, fault.replace("-", "_")) for fault in DEFAULT_SHARES}
    if sum(options.shares.values()) > 1:
        parser.error(f"the shares add up to {sum(options.shares.values()):.2f}: at most 1")
    return options


def _whole(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _positive(text: str) -> float:
    number = _number(text)
    if not 0 < number < 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 10000")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _share(text: str) -> float:
    number = _number(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return number
