"""The client for programs with threads."""
from __future__ import annotations

import concurrent.futures
import os
import queue
import threading
import time
from collections import deque
from typing import (Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Union)

from .core import (AnyJob, Call, Core, Flow, Idle, Info, Pipe, Progress, Push, Sleep,
                   block_s_of, commands_max_of, no_turn, node_options, reply_options, servers_of)
from .results import ClientClosed, Result

PIECE = 32  # jobs that a map submits in one round trip
TAKE_S = 0.01  # to collect them
CLOSE_S = 3.0  # the longest wait for the threads, which may wait for Redis


class Handle(concurrent.futures.Future):  # type: ignore[type-arg]
    """A submitted job: a Future of its result. `cancel` does nothing; use Client.cancel(id)."""

    id: str
    shard: int

    def result(self, timeout: Optional[float] = None) -> Result:
        """Waits for the result. Raises concurrent.futures.TimeoutError after `timeout` seconds; the
        job goes on."""
        result: Result = super().result(timeout)
        return result


class Client:
    """Submits jobs and gets their results. Any number of threads may use one client.

    redis: a client of redis-py (Redis, RedisCluster, Sentinel.master_for(...)), with your TLS and
        passwords; or a list of them, if the option redis of the daemons names several servers.
    namespace, shards: as the daemons' options.
    retry_s: how long a command is repeated while Redis is away, before its error is raised. Waiting
        for results goes on for any time.
    data_ttl_s: how long Redis keeps the bytes of Uploads, after not_before, and of Downloads at most.
    """

    def __init__(self, redis: Any, *, namespace: str = "gpuimgd", shards: int = 1,
                 retry_s: float = 30.0, data_ttl_s: int = 86400) -> None:
        self._servers = servers_of(redis, shards, is_async=False)
        self._make_core: Callable[[], Core] = lambda: Core(namespace, shards, retry_s, data_ttl_s)
        self._start()

    def _start(self) -> None:
        self._core = self._make_core()
        for shard in self._core.shards:
            shard.block_s = block_s_of(self._servers[shard.index])
        self._process = os.getpid()
        self._turns = threading.Semaphore(commands_max_of(self._servers))
        self._threads: Dict[int, threading.Thread] = {}
        self._changed = threading.Condition(self._core.lock)
        self._ended = threading.Event()

    def _check_process(self) -> None:
        if self._process != os.getpid():  # a fork has neither the threads nor the jobs
            self._start()

    # ---- flows ----
    def _carry_out(self, step: Any) -> Any:
        if isinstance(step, Sleep):
            if self._ended.wait(step.seconds):
                raise ClientClosed("the client is closed")
            return None
        if isinstance(step, Idle):
            with self._changed:
                self._changed.wait_for(lambda: step.shard.pending or self._core.closed)
            return None
        server = self._servers[step.shard.index]
        if isinstance(step, Call):
            return server.execute_command(*step.command, **reply_options(step.command))
        if isinstance(step, Info):
            return server.execute_command("INFO", "server", **node_options(server, step.shard))
        assert isinstance(step, Pipe)
        pipe = server.pipeline(transaction=False)
        for command in step.commands:
            pipe.execute_command(*command, **reply_options(command))
        return pipe.execute(raise_on_error=False)

    def _carry_out_in_turn(self, step: Any) -> Any:
        if isinstance(step, Sleep):
            return self._carry_out(step)
        if not self._turns.acquire(timeout=self._core.turn_s):
            raise no_turn(self._core.turn_s)
        try:
            return self._carry_out(step)
        finally:
            self._turns.release()

    def _run(self, flow: Flow, is_reader: bool = False) -> Any:
        carry_out = self._carry_out if is_reader else self._carry_out_in_turn
        reply: Any = None
        error: Optional[BaseException] = None
        while True:
            try:
                step = flow.throw(error) if error else flow.send(reply)
            except StopIteration as end:
                return end.value
            reply = error = None
            try:
                reply = carry_out(step)
            except Exception as raised:
                error = raised

    def _start_reader(self, index: int) -> None:
        """The caller holds the lock."""
        thread = self._threads.get(index)
        if thread is None or not thread.is_alive():
            flow = self._core.read(self._core.shards[index])
            thread = threading.Thread(target=self._run, args=(flow, True), daemon=True,
                                      name=f"gpuimgd-{index}")
            thread.start()  # raises if there are too many threads
            self._threads[index] = thread

    def _submit(self, pushes: Sequence[Push]) -> None:
        core = self._core
        core.register(pushes)
        try:
            with self._changed:
                for index in {push.shard.index for push in pushes}:
                    self._start_reader(index)
                self._changed.notify_all()
        except BaseException:
            core.remove(pushes)
            raise
        self._run(core.push(pushes))

    def _prepare(self, job: AnyJob, retry_dead: int) -> Push:
        handle = Handle()
        push = self._core.prepare(job, handle, retry_dead)
        handle.id, handle.shard = push.id, push.shard.index
        handle.set_running_or_notify_cancel()
        return push

    # ---- jobs ----
    def submit(self, job: AnyJob, *, retry_dead: int = 0) -> Handle:
        """Sends a job, and returns when Redis has it. The job is a Job, or a mapping with the keys of
        gpuimgd-job(5). retry_dead: how often a dead job is sent again before its result counts."""
        return self.submit_many([job], retry_dead=retry_dead)[0]

    def submit_many(self, jobs: Iterable[AnyJob], *, retry_dead: int = 0) -> List[Handle]:
        """Sends several jobs in one round trip per shard."""
        self._check_process()
        pushes = [self._prepare(job, retry_dead) for job in jobs]
        self._submit(pushes)
        return [push.handle for push in pushes]  # type: ignore[misc]

    def run(self, job: AnyJob, *, timeout: Optional[float] = None, retry_dead: int = 0) -> Result:
        """Sends a job and waits for its result."""
        handle = self.submit(job, retry_dead=retry_dead)
        try:
            return handle.result(timeout)
        finally:
            self.forget([handle])

    def map(self, jobs: Iterable[AnyJob], *, window: int = 64, ordered: bool = False,
            progress: Optional[Callable[[Progress], object]] = None, retry_dead: int = 0,
            timeout: Optional[float] = None) -> Iterator[Result]:
        """Yields the result of each job, as they come or in the order of the jobs. Takes jobs from
        the iterable so that at most `window` of them are submitted and not yielded. Results that are
        not done are yielded, too. timeout: the longest wait for the next result."""
        if window < 1:
            raise ValueError(f"window is {window}; it must be 1 or more")
        held = _Held(iter(jobs), ordered)

        def send(batch: Sequence[AnyJob]) -> None:
            held.add(self.submit_many(batch, retry_dead=retry_dead))
        state = Progress(0, 0, 0)
        report = progress or (lambda _: None)
        try:
            while held.has_more or held.handles:
                if held.has_more and len(held.handles) < window and not held.is_ready():
                    sent = held.take(min(PIECE, window - len(held.handles)), send)
                    state = state.after_push(sent)
                    report(state)
                else:
                    result = held.next(timeout).result()
                    state = state.after(result)
                    report(state)
                    yield result
        finally:
            self.forget(held.handles)

    @staticmethod
    def results(handles: Iterable[Handle], timeout: Optional[float] = None) -> Iterator[Result]:
        """Yields the results of submitted jobs as they come. timeout: the longest wait for the next
        result."""
        held = _Held(iter(()), ordered=False)
        held.add(handles)
        while held.handles:
            yield held.next(timeout).result()

    def forget(self, handles: Iterable[Handle]) -> None:
        """Nobody wants the results of these jobs. The jobs go on; then their bytes are deleted."""
        self._core.forget((handle.shard, handle.id, handle) for handle in handles)

    def cancel(self, job: Union[str, Handle]) -> Optional[Result]:
        """Cancels all jobs with this id that were sent before. Returns the kept result of the id, if
        there is one. Jobs that are cancelled get a result with the status cancelled."""
        id = job.id if isinstance(job, Handle) else job
        result: Optional[Result] = self._run(self._core.cancel(id))
        return result

    def kept_result(self, id: str) -> Optional[Result]:
        """The result of a job with this id, which Redis keeps for result_ttl_s, with the bytes of its
        Downloads if they are still there."""
        result: Optional[Result] = self._run(self._core.kept(id))
        return result

    # ---- shards ----
    def shard_of(self, id: str) -> int:
        """The shard of the jobs with this id."""
        return self._core.shard_of(id).index

    def namespace_of(self, id: str) -> str:
        """The namespace of the jobs with this id, with which their keys begin."""
        return self._core.shard_of(id).ns

    def close(self) -> None:
        """Ends the threads. Jobs that have not ended go on without this client."""
        left = self._core.close()
        self._ended.set()
        for push in left:
            push.fail(ClientClosed("the client was closed before the result came"))
        with self._changed:
            self._changed.notify_all()
        end = time.monotonic() + CLOSE_S
        for thread in self._threads.values():
            thread.join(max(0.0, end - time.monotonic()))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Outbox:
    """The jobs of one piece of a map. One thread takes them, and two may send them."""

    def __init__(self, send: Callable[[Sequence[AnyJob]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._jobs: List[AnyJob] = []
        self._sent = 0
        self._error: Optional[BaseException] = None

    def add(self, job: AnyJob) -> None:
        with self._lock:
            self._jobs.append(job)

    def clear(self) -> None:
        """Waits until no job is being sent, and drops the others."""
        with self._lock:
            self._jobs = []

    def send(self) -> None:
        with self._lock:
            jobs, self._jobs = self._jobs, []
            if jobs and not self._error:
                try:
                    self._send(jobs)
                    self._sent += len(jobs)
                except BaseException as error:
                    self._error = error

    def finish(self) -> int:
        """The number of jobs that were sent."""
        if self._error:
            raise self._error
        return self._sent


class _Held:
    """The handles of a map that are not yielded yet."""

    def __init__(self, source: Iterator[AnyJob], ordered: bool) -> None:
        self.source, self.has_more = source, True
        self.ordered = ordered
        self.handles: Deque[Handle] = deque()
        self._ended: "queue.SimpleQueue[Handle]" = queue.SimpleQueue()

    def take(self, size: int, send: Callable[[Sequence[AnyJob]], None]) -> int:
        """Takes and sends up to `size` jobs, and returns their number. While the source is slow, a
        thread sends the jobs that it has given."""
        outbox = _Outbox(send)
        timer: Optional[threading.Timer] = None
        end = time.monotonic() + TAKE_S
        try:
            for i in range(size):
                if i == 1:
                    timer = threading.Timer(TAKE_S, outbox.send)
                    timer.daemon = True
                    timer.start()
                try:
                    outbox.add(next(self.source))
                except StopIteration:
                    self.has_more = False
                    break
                if self.is_ready() or time.monotonic() > end:
                    break
        except BaseException:
            outbox.clear()
            raise
        finally:
            if timer:
                timer.cancel()
        outbox.send()
        return outbox.finish()

    def add(self, handles: Iterable[Handle]) -> None:
        for handle in handles:
            self.handles.append(handle)
            if not self.ordered:
                handle.add_done_callback(self._ended.put)  # type: ignore[arg-type]

    def is_ready(self) -> bool:
        if self.ordered:
            return bool(self.handles) and self.handles[0].done()
        return not self._ended.empty()

    def next(self, timeout: Optional[float]) -> Handle:
        if self.ordered:
            self.handles[0].result(timeout)
            return self.handles.popleft()
        try:
            handle = self._ended.get(timeout=timeout)
        except queue.Empty:
            raise concurrent.futures.TimeoutError(f"no result within {timeout} s") from None
        self.handles.remove(handle)
        return handle
