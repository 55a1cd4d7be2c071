"""What the clients with threads and with asyncio share: jobs on their way, and the commands to Redis.

The functions that talk to Redis are generators ("flows"). They yield steps (Call, Pipe, Info, Sleep,
Idle), which a client carries out, and get the replies. So both clients follow the same protocol.

Each client has one reply list per shard. The flow `read` waits for its oldest entry by a BLMOVE of the
list onto itself, which removes nothing, reads entries, hands them out, and then removes them. A reply
that is lost on the way costs nothing: the same entries are read again, and those that were handed out
are known by their ids."""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import datetime
import json
import math
import re
import threading
import time
import unicodedata
import uuid
import zlib
from typing import (Any, Dict, Generator, Iterable, List, Mapping, NamedTuple, Optional, Protocol,
                    Sequence, Tuple, Union)

import redis
import redis.asyncio
import redis.exceptions

from .declared import CANCEL_SCRIPT, ID_BYTES_MAX, PRIORITIES_MAX, SHARDS_MAX
from .job import Job
from .results import ClientClosed, DuplicateId, GpuimgdError, Result
from .steps import Encoder

AnyJob = Union[Job, Mapping[str, Any]]

BLOCK_S = 1.0  # of a BLMOVE; also the time between checks if Redis was restarted
RESULTS_PER_READ = 64
PUSH_BYTES = 256 * 1024  # of one LPUSH, during which Redis serves no other client
DELAY_MAX_S = 1e10  # a longer one may be more than EX takes
COMMANDS_MAX = 32  # at once, and so connections, without those that wait for results
TURN_S = 5.0  # the shortest limit of the wait for the turn of a command


class Progress(NamedTuple):
    """The state of a map: counts of jobs."""

    submitted: int
    done: int
    failed: int  # also dead and cancelled ones

    @property
    def running(self) -> int:
        return self.submitted - self.done - self.failed

    def after_push(self, count: int) -> "Progress":
        return self._replace(submitted=self.submitted + count)

    def after(self, result: Result) -> "Progress":
        return self._replace(done=self.done + result.ok, failed=self.failed + (not result.ok))


# ---- steps of a flow -------------------------------------------------------------------------------
class Call(NamedTuple):
    """One command; the reply, or an exception."""

    shard: "Shard"
    command: Tuple[Any, ...]


class Pipe(NamedTuple):
    """Commands in one round trip; the list of replies, with exceptions as values."""

    shard: "Shard"
    commands: Sequence[Tuple[Any, ...]]


class Info(NamedTuple):
    """INFO server of the shard's server."""

    shard: "Shard"


class Sleep(NamedTuple):
    """Raises ClientClosed if the client is closed meanwhile."""

    seconds: float


class Idle(NamedTuple):
    """Wait until the shard has pending jobs, or the client is closed."""

    shard: "Shard"


Flow = Generator[Union[Call, Pipe, Info, Sleep, Idle], Any, Any]


class Settable(Protocol):
    """A future of either library."""

    def set_result(self, result: Result, /) -> None: ...

    def set_exception(self, exception: Any, /) -> None: ...


# A client that is closed and its reader may both end a future.
_DONE_ALREADY = (asyncio.InvalidStateError, concurrent.futures.InvalidStateError)


# ---- state -----------------------------------------------------------------------------------------
class Push:
    """A job on its way. `handle` gets its result."""

    def __init__(self, shard: "Shard", id: str, handle: Settable) -> None:
        self.shard, self.id, self.handle = shard, id, handle
        self.list = ""
        self.text = b""
        self.uploads: Dict[str, bytes] = {}
        self.downloads: List[str] = []
        self.data_ttl_s = 0  # of uploads
        self.is_own_id = False  # the client chose the id
        self.unique = False
        self.repeated = False
        self.is_forgotten = False  # nobody wants the result; only its keys must go
        self.retry_dead = 0

    def commands(self) -> List[Tuple[Any, ...]]:
        return [("SET", key, data, "EX", self.data_ttl_s) for key, data in self.uploads.items()]

    def finish(self, raw: Mapping[str, Any], data: Mapping[str, Optional[bytes]]) -> None:
        try:
            result = Result.from_json(raw, data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.fail(GpuimgdError(f"this is no result of gpuimgd ({error!r}): {raw}"))
        else:
            with contextlib.suppress(*_DONE_ALREADY):
                self.handle.set_result(result)

    def fail(self, error: BaseException) -> None:
        with contextlib.suppress(*_DONE_ALREADY):
            self.handle.set_exception(error)


class Shard:
    def __init__(self, index: int, ns: str, name: str) -> None:
        self.index, self.ns = index, ns
        self.replies = f"{ns}:reply:{name}"
        self.pending: Dict[str, Push] = {}
        self.block_s = BLOCK_S
        self.run_id: Optional[str] = None  # of the server; None: not known, or denied


def shard_namespace(namespace: str, shards: int, index: int) -> str:
    if shards == 1:
        return namespace
    bare = namespace[1:-1] if namespace[:1] == "{" and namespace[-1:] == "}" else namespace
    if "{" in bare or "}" in bare:
        raise ValueError(f"namespace is {namespace!r}; with several shards it must have no braces, or "
                         "one pair around all of it")
    return f"{{{bare}:{index}}}"


def check_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}; it must be a text")


def delay_s(not_before: Any) -> int:
    """The seconds until a job can start, about; 0 for what the daemon refuses."""
    if isinstance(not_before, datetime.datetime):
        not_before = not_before.timestamp()
    elif isinstance(not_before, datetime.timedelta):
        not_before = time.time() + not_before.total_seconds()
    elif isinstance(not_before, str):
        try:
            not_before = time.time() + float(not_before)
        except ValueError:
            return 0
    elif not isinstance(not_before, (int, float)):
        return 0
    return int(max(0.0, min(not_before - time.time(), DELAY_MAX_S)))


def check_id(id: Any) -> None:
    """The daemon posts the result of a job with a wrong id without it, and nobody would find it."""
    if not isinstance(id, str):
        raise ValueError(f"the id is {id!r}; it must be a text")
    if not 1 <= len(id.encode("utf-8")) <= ID_BYTES_MAX:
        raise ValueError(f"the id has {len(id.encode('utf-8'))} bytes; it must have 1 to {ID_BYTES_MAX}")
    if any(unicodedata.category(c) == "Cc" for c in id):
        raise ValueError(f"the id has a control character: {id!r}")


# ---- errors of Redis -------------------------------------------------------------------------------
_TRANSIENT = ("LOADING", "BUSY", "MISCONF", "NOREPLICAS", "TRYAGAIN", "ASK", "MOVED", "READONLY",
              "UNBLOCKED", "CLUSTERDOWN", "MASTERDOWN", "OOM")
_TRANSIENT_TYPES: Tuple[type, ...] = tuple(
    getattr(redis.exceptions, name) for name in (
        "ConnectionError", "TimeoutError", "BusyLoadingError", "ReadOnlyError", "TryAgainError",
        "ClusterDownError", "MasterDownError", "MovedError", "AskError", "OutOfMemoryError",
        "RedisClusterException")
    if hasattr(redis.exceptions, name)) + (OSError,)
_PERMANENT_TYPES: Tuple[type, ...] = tuple(
    getattr(redis.exceptions, name) for name in (
        "AuthenticationError", "AuthenticationWrongNumberOfArgsError", "AuthorizationError")
    if hasattr(redis.exceptions, name))


def is_transient(error: object) -> bool:
    """Whether a later try of the same command may succeed."""
    if isinstance(error, _PERMANENT_TYPES):
        return False
    return isinstance(error, _TRANSIENT_TYPES) or (
        isinstance(error, redis.exceptions.ResponseError) and str(error).startswith(_TRANSIENT))


def _first(errors: Iterable[object]) -> Optional[BaseException]:
    return next((e for e in errors if isinstance(e, BaseException)), None)


def persist(step: Union[Call, Pipe], limit_s: float) -> Flow:
    """Repeats a step until Redis takes it, for at most limit_s seconds."""
    end, delay = time.monotonic() + limit_s, 0.05
    while True:
        try:
            replies = yield step
            error = _first(r for r in replies if is_transient(r)) if isinstance(step, Pipe) else None
        except Exception as raised:
            if not is_transient(raised):
                raise
            error = raised
        if error is None:
            return replies
        if time.monotonic() + delay > end:
            raise error
        yield Sleep(delay)
        delay = min(2 * delay, 1.0)


# ---- the flows -------------------------------------------------------------------------------------
class Core:
    def __init__(self, namespace: str, shards: int, retry_s: float, data_ttl_s: int) -> None:
        check_text("namespace", namespace)
        if retry_s < 0 or data_ttl_s < 1:
            raise ValueError(f"retry_s is {retry_s} and data_ttl_s is {data_ttl_s}; they must be at "
                             "least 0 and 1")
        if not 1 <= shards <= SHARDS_MAX:
            raise ValueError(f"shards is {shards}; it must be 1 to {SHARDS_MAX}")
        self.name = uuid.uuid4().hex
        self.retry_s, self.data_ttl_s = retry_s, data_ttl_s
        self.turn_s = min(max(retry_s, TURN_S), threading.TIMEOUT_MAX)
        self.shards = [Shard(i, shard_namespace(namespace, shards, i), self.name)
                       for i in range(shards)]
        self.lock = threading.Lock()
        self.closed = False

    def shard_of(self, id: str) -> Shard:
        check_text("the id", id)
        return self.shards[zlib.crc32(id.encode("utf-8")) % len(self.shards)]

    # ---- a job becomes a text ----
    def prepare(self, job: AnyJob, handle: Settable, retry_dead: int) -> Push:
        if isinstance(job, Job):
            members = {f.name: getattr(job, f.name) for f in dataclasses.fields(job)}
        elif isinstance(job, Mapping):
            members = dict(job)
        else:
            raise TypeError(f"the job is {job!r}; it must be a Job, or a mapping with the keys of "
                            "gpuimgd-job(5)")
        for key in ("reply_to", "pushed"):
            if key in members:
                raise ValueError(f"the job has {key}, which the client sets")
        id = members.get("id")
        is_own_id = id is None
        if id is None:
            id = members["id"] = uuid.uuid4().hex
            if members.get("unique") is None:
                members["unique"] = True
        check_id(id)
        push = Push(self.shard_of(id), id, handle)
        push.is_own_id, push.retry_dead = is_own_id, retry_dead
        push.unique = members.get("unique") is True
        push.list = self._list_of(push.shard, members.get("priority"))
        if members.get("ops") in ((), []):
            members["ops"] = None
        members["reply_to"] = push.shard.replies
        members["pushed"] = round(time.time(), 3)
        push.text = self._encoder(push).job(members)
        push.data_ttl_s = self.data_ttl_s + delay_s(members.get("not_before"))
        return push

    @staticmethod
    def _list_of(shard: Shard, priority: Optional[int]) -> str:
        if priority is None:
            return f"{shard.ns}:jobs"
        if not isinstance(priority, int) or not 0 <= priority < PRIORITIES_MAX:
            raise ValueError(f"priority is {priority!r}; it must be 0 to {PRIORITIES_MAX - 1}")
        return f"{shard.ns}:jobs:{priority}"

    def _encoder(self, push: Push) -> Encoder:
        # The same keys if a job is submitted again whose result came too late for its caller.
        prefix = f"{push.shard.ns}:img:{self.name}:{push.id}"
        keys: Dict[int, str] = {}

        def upload(data: bytes) -> str:
            if id(data) not in keys:  # one logo for several outputs
                keys[id(data)] = f"{prefix}:in{len(keys)}"
                push.uploads[keys[id(data)]] = data
            return keys[id(data)]

        def download() -> str:
            push.downloads.append(f"{prefix}:out{len(push.downloads)}")
            return push.downloads[-1]

        return Encoder(upload, download, self.data_ttl_s)

    # ---- to Redis ----
    def register(self, pushes: Sequence[Push]) -> None:
        with self.lock:
            if self.closed:
                raise ClientClosed("the client is closed")
            ids = set()
            for push in pushes:
                known = push.shard.pending.get(push.id)
                if push.id in ids or (known and not known.is_forgotten):
                    raise DuplicateId(f"a job with the id {push.id!r} has not ended yet")
                ids.add(push.id)
            for push in pushes:
                push.shard.pending[push.id] = push

    def remove(self, pushes: Iterable[Push]) -> None:
        with self.lock:
            for push in pushes:
                if push.shard.pending.get(push.id) is push:
                    del push.shard.pending[push.id]

    def forget(self, handles: Iterable[Tuple[int, str, object]]) -> None:
        """Nobody wants the results of these jobs, given by shard, id and handle. When they come, the
        keys of the jobs are deleted."""
        with self.lock:
            for shard, id, handle in handles:
                push = self.shards[shard].pending.get(id)
                if push and push.handle is handle:
                    push.is_forgotten, push.unique, push.retry_dead = True, False, 0
                    push.uploads = dict.fromkeys(push.uploads, b"")

    def push(self, pushes: Sequence[Push]) -> Flow:
        """Sends jobs, which are registered. If Redis does not reply, they are sent again: a second
        job with the same id is answered by the result of the first, if it is unique."""
        try:
            for shard in self.shards:
                own = [push for push in pushes if push.shard is shard]
                if own and shard.run_id is None:
                    shard.run_id = yield from self._ask_run_id(shard)
                for piece in _pieces(own):
                    yield from self._send(shard, piece, self.retry_s)
        except BaseException:
            self.remove(pushes)
            raise

    def _send(self, shard: Shard, pushes: Sequence[Push], limit_s: float,
              before: Sequence[Tuple[Any, ...]] = ()) -> Flow:
        commands = list(before)
        for push in pushes:
            commands += push.commands()
        for name in dict.fromkeys(push.list for push in pushes):
            commands.append(("LPUSH", name, *[p.text for p in pushes if p.list == name]))
        error = _first((yield from persist(Pipe(shard, commands), limit_s)))
        if error:
            raise error

    def _ask_run_id(self, shard: Shard) -> Flow:
        try:
            info = yield Info(shard)
            return info.get("run_id") if isinstance(info, dict) else None
        except Exception:  # denied, or away: the next command tells
            return None

    # ---- results ----
    def read(self, shard: Shard) -> Flow:
        """Hands out the results of a shard until the client is closed."""
        done: List[Tuple[Any, ...]] = []  # commands after the results were handed out
        while done or not self.closed:
            if not shard.pending and not done:
                yield Idle(shard)
                continue
            try:
                done = yield from self._read_once(shard, done)
            except ClientClosed:
                return
            except Exception as error:  # nothing that a retry mends, such as a denied command
                done = []
                with self.lock:
                    lost, shard.pending = shard.pending, {}
                for push in lost.values():
                    push.fail(error)

    def _read_once(self, shard: Shard, done: List[Tuple[Any, ...]]) -> Flow:
        read = ("LRANGE", shard.replies, -RESULTS_PER_READ, -1)
        replies = yield from persist(Pipe(shard, done + [read]), math.inf)
        error = _first(reply for command, reply in zip(done + [read], replies)
                       if command[0] in ("LREM", "LRANGE"))
        if error:  # a result that stays would be read again and again
            raise error
        if replies[-1]:
            return (yield from self._take(shard, replies[-1][::-1]))
        if shard.pending:
            wait = ("BLMOVE", shard.replies, shard.replies, "RIGHT", "RIGHT", shard.block_s)
            if (yield from persist(Call(shard, wait), math.inf)) is None:
                yield from self._check_restart(shard)
        return []

    def _take(self, shard: Shard, texts: Sequence[bytes]) -> Flow:
        """Hands out results, the oldest first. Returns the commands that remove them."""
        again, done = [], []
        for text in texts:
            raw, push = self._match(shard, text)
            if push and raw.get("status") == "dead" and push.retry_dead > 0:
                push.retry_dead -= 1
                again.append(push)
            elif push:
                data: Dict[str, bytes] = {}
                try:
                    if not push.is_forgotten:
                        data = yield from self._fetch(shard, push.id, raw)
                except redis.exceptions.ResponseError as error:  # the keys stay until they expire
                    self.remove([push])
                    push.fail(error)
                else:
                    self.remove([push])
                    push.finish(raw, data)
                    done += _remains(push)
            done.append(("LREM", shard.replies, -1, text))
        if again:  # a dead letter goes when its job is pushed again
            yield from self._send(shard, again, math.inf, [
                ("LREM", f"{shard.ns}:dead", 1, push.text) for push in again])
        return done

    @staticmethod
    def _match(shard: Shard, text: bytes) -> Tuple[Dict[str, Any], Optional[Push]]:
        """The result, and the job that it belongs to, if it is one that waits."""
        try:
            raw = json.loads(text.decode("utf-8", "replace"))
        except ValueError:
            raw = None
        if not isinstance(raw, dict) or not isinstance(raw.get("id"), str):
            return {}, None  # somebody else wrote into the list
        return raw, shard.pending.get(raw["id"])

    def _fetch(self, shard: Shard, id: str, raw: Mapping[str, Any],
               limit_s: float = math.inf) -> Flow:
        """The bytes of Downloads, also those of another client's job with this id, by key."""
        outputs = raw.get("outputs")
        named = [output.get("key") for output in outputs if isinstance(output, dict)] if isinstance(
            outputs, list) else []
        form = re.compile(re.escape(f"{shard.ns}:img:") + "[0-9a-f]{32}" + re.escape(f":{id}:out") +
                          "[0-9]+")
        keys = [key for key in named if isinstance(key, str) and form.fullmatch(key)]
        if not keys:
            return {}
        replies = yield from persist(Pipe(shard, [("GET", key) for key in keys]), limit_s)
        error = _first(replies)
        if error:
            raise error
        return {key: reply for key, reply in zip(keys, replies) if isinstance(reply, bytes)}

    def _check_restart(self, shard: Shard) -> Flow:
        """Redis that was restarted, or a replica that took over, may have lost jobs. Those that are
        unique are pushed again: if they are there, nothing runs twice."""
        run_id = yield from self._ask_run_id(shard)
        if run_id is None or run_id == shard.run_id:
            return
        if shard.run_id is not None:
            with self.lock:
                lost = [push for push in shard.pending.values() if push.unique]
            for push in lost:
                push.repeated = True
            for piece in _pieces(lost):
                yield from self._send(shard, piece, math.inf)
        shard.run_id = run_id

    # ---- ids ----
    def kept(self, id: str) -> Flow:
        shard = self.shard_of(id)
        text = yield from persist(Call(shard, ("GET", f"{shard.ns}:result:{id}")), self.retry_s)
        if not text:
            return None
        raw = json.loads(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
        return Result.from_json(raw, (yield from self._fetch(shard, id, raw, self.retry_s)))

    def cancel(self, id: str) -> Flow:
        shard, ns = self.shard_of(id), self.shard_of(id).ns
        command = ("EVAL", CANCEL_SCRIPT, 6, f"{ns}:jobs", f"{ns}:cancel", f"{ns}:woken",
                   f"{ns}:waits:{id}", f"{ns}:result:{id}", f"{ns}:never", id)
        reply = yield from persist(Call(shard, command), self.retry_s)
        return Result.from_json(reply[0]) if reply and reply[0] else None

    def close(self) -> List[Push]:
        with self.lock:
            self.closed = True
            left = [push for shard in self.shards for push in shard.pending.values()]
            for shard in self.shards:
                shard.pending = {}
        return left


def _remains(push: Push) -> List[Tuple[Any, ...]]:
    """Commands that delete the keys of a job that has ended. Only this client knows the id, so
    nobody asks for its kept result."""
    keys = [*push.uploads, *push.downloads]
    if push.is_own_id and not push.repeated:
        keys.append(f"{push.shard.ns}:result:{push.id}")
    return [("UNLINK", key) for key in keys]


def _pieces(pushes: Sequence[Push]) -> Iterable[Sequence[Push]]:
    piece: List[Push] = []
    size = 0
    for push in pushes:
        if piece and size + len(push.text) > PUSH_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(push)
        size += len(push.text) + sum(len(data) for data in push.uploads.values())
    if piece:
        yield piece


# ---- clients of redis-py ---------------------------------------------------------------------------
def servers_of(redis_: Any, shards: int, is_async: bool) -> List[Any]:
    """The client of each shard: shard i is on server i mod G."""
    servers = list(redis_) if isinstance(redis_, (list, tuple)) else [redis_]
    for server in servers:
        _check_server(server, is_async)
    if not isinstance(shards, int):
        raise TypeError(f"shards is {shards!r}; it must be a number")
    if not 1 <= len(servers) <= shards:
        raise ValueError(f"there are {len(servers)} servers; with {shards} shards there must be "
                         f"1 to {shards}")
    return [servers[i % len(servers)] for i in range(shards)]


_WITH_THREADS = (redis.Redis, redis.RedisCluster)
_WITH_ASYNCIO = (redis.asyncio.Redis, redis.asyncio.RedisCluster)


def _check_server(server: Any, is_async: bool) -> None:
    library = "redis.asyncio" if is_async else "redis"
    if isinstance(server, _WITH_THREADS if is_async else _WITH_ASYNCIO):
        raise TypeError(f"redis is a client of {'redis' if is_async else 'redis.asyncio'}; "
                        f"{'AsyncClient' if is_async else 'Client'} takes one of {library}")
    if not hasattr(server, "execute_command") or not hasattr(server, "pipeline"):
        # A URL may have a password, so it is not printed.
        raise TypeError(f"redis is a {type(server).__name__}; it must be a client of redis-py, for "
                        f"example {library}.Redis.from_url(...)")


def commands_max_of(servers: Sequence[Any]) -> int:
    """How many commands a client sends at once. Since version 8 of redis-py a pool has by default 100
    connections, and raises MaxConnectionsError if all are used; the reader of each shard takes one."""
    most = COMMANDS_MAX
    for server in servers:
        limit = getattr(getattr(server, "connection_pool", None), "max_connections", None)
        if isinstance(limit, int):
            readers = sum(other is server for other in servers)
            if limit <= readers:
                raise ValueError(f"max_connections of redis is {limit}; it must be more than {readers}, "
                                 "the number of shards on this server")
            most = min(most, limit - readers)
    return most


def no_turn(wait_s: float) -> Exception:
    return redis.exceptions.TimeoutError(
        f"Redis has not answered the commands before this one for {wait_s} s")


def block_s_of(server: Any) -> float:
    """A BLMOVE must end before redis-py gives up the connection: since version 8 after 5 s."""
    timeout: Any = None
    for holder in ("connection_pool", "nodes_manager", None):
        owner = getattr(server, holder, None) if holder else server
        known = getattr(owner, "connection_kwargs", None)
        if isinstance(known, dict) and known.get("socket_timeout"):
            timeout = known["socket_timeout"]
            break
    return min(BLOCK_S, timeout / 2) if isinstance(timeout, (int, float)) else BLOCK_S


def node_options(server: Any, shard: Shard) -> Dict[str, Any]:
    """The options that send INFO to the node of a shard, if the server is a Cluster."""
    find = getattr(server, "get_node_from_key", None)
    return {"target_nodes": find(shard.replies)} if find else {}


def reply_options(command: Sequence[Any]) -> Dict[str, Any]:
    """Replies that are bytes stay so with decode_responses, too."""
    return {"NEVER_DECODE": True} if command[0] in ("GET", "LRANGE") else {}
