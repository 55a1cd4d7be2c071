"""The client for asyncio."""
from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import (Any, AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Deque, Dict,
                    Generator, Iterable, List, Optional, Sequence, Union)

from .core import (AnyJob, Call, Core, Flow, Idle, Info, Pipe, Progress, Push, Shard, Sleep,
                   block_s_of, commands_max_of, no_turn, node_options, reply_options, servers_of)
from .results import ClientClosed, Result

PIECE = 32  # jobs that a map submits in one round trip
TAKE_S = 0.01  # to collect them
CLOSE_S = 3.0  # the longest wait for a task, which may wait for Redis


class Handle:
    """A submitted job. `await handle` gives its result. To cancel the waiting does not cancel the
    job; see AsyncClient.cancel."""

    def __init__(self) -> None:
        self.id = ""
        self.shard = 0
        self._future: "asyncio.Future[Result]" = asyncio.get_running_loop().create_future()
        # A result that nobody awaits is no error.
        self._future.add_done_callback(lambda f: None if f.cancelled() else f.exception())

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.shield(self._future).__await__()

    async def result(self, timeout: Optional[float] = None) -> Result:
        """Waits for the result. Raises asyncio.TimeoutError after `timeout` seconds; the job goes
        on."""
        await asyncio.wait([self._future], timeout=timeout)
        if not self._future.done():
            raise asyncio.TimeoutError
        return self._future.result()

    def done(self) -> bool:
        return self._future.done()

    def set_result(self, result: Result, /) -> None:
        self._future.set_result(result)

    def set_exception(self, exception: Any, /) -> None:
        self._future.set_exception(exception)

    def when_done(self, call: "Callable[[Handle], object]") -> None:
        self._future.add_done_callback(lambda _: call(self))


class AsyncClient:
    """Submits jobs and gets their results, in one event loop. The arguments are those of Client, but
    for the clients of Redis, which are those of redis.asyncio."""

    def __init__(self, redis: Any, *, namespace: str = "gpuimgd", shards: int = 1,
                 retry_s: float = 30.0, data_ttl_s: int = 86400) -> None:
        self._servers = servers_of(redis, shards, is_async=True)
        self._core = Core(namespace, shards, retry_s, data_ttl_s)
        for shard in self._core.shards:
            shard.block_s = block_s_of(self._servers[shard.index])
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._commands_max = commands_max_of(self._servers)
        self._turns: Optional[asyncio.Semaphore] = None  # made in the event loop
        self._tasks: Dict[int, "asyncio.Task[None]"] = {}
        self._wakes: Dict[int, asyncio.Event] = {}

    # ---- flows ----
    async def _carry_out(self, step: Any) -> Any:
        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            if self._core.closed:
                raise ClientClosed("the client is closed")
            return None
        if isinstance(step, Idle):
            wake = self._wakes[step.shard.index]
            while not step.shard.pending and not self._core.closed:
                wake.clear()
                await wake.wait()
            return None
        server = self._servers[step.shard.index]
        if isinstance(step, Call):
            return await server.execute_command(*step.command, **reply_options(step.command))
        if isinstance(step, Info):
            if hasattr(server, "initialize"):  # a Cluster learns its nodes
                await server.initialize()
            return await server.execute_command("INFO", "server",
                                                **node_options(server, step.shard))
        assert isinstance(step, Pipe)
        pipe = server.pipeline(transaction=False)
        for command in step.commands:
            pipe.execute_command(*command, **reply_options(command))
        return await pipe.execute(raise_on_error=False)

    async def _carry_out_in_turn(self, step: Any) -> Any:
        if isinstance(step, Sleep):
            return await self._carry_out(step)
        if self._turns is None:
            self._turns = asyncio.Semaphore(self._commands_max)
        try:
            await _within(self._turns.acquire(), self._core.turn_s, self._turns.release)
        except asyncio.TimeoutError:
            raise no_turn(self._core.turn_s) from None
        try:
            return await self._carry_out(step)
        finally:
            self._turns.release()

    async def _run(self, flow: Flow, is_reader: bool = False) -> Any:
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
                reply = await carry_out(step)
            except Exception as raised:
                error = raised
            except BaseException:
                flow.close()
                raise

    def _start_reader(self, shard: Shard) -> None:
        task = self._tasks.get(shard.index)
        if task is None or task.done():  # the program may cancel all tasks
            self._wakes[shard.index] = asyncio.Event()
            self._tasks[shard.index] = asyncio.get_running_loop().create_task(
                self._run(self._core.read(shard), True))
        self._wakes[shard.index].set()

    async def _submit(self, pushes: Sequence[Push]) -> None:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise RuntimeError("this AsyncClient belongs to another event loop")
        self._loop = loop
        self._core.register(pushes)
        for push in pushes:
            self._start_reader(push.shard)
        await self._run(self._core.push(pushes))

    def _prepare(self, job: AnyJob, retry_dead: int) -> Push:
        handle = Handle()
        push = self._core.prepare(job, handle, retry_dead)
        handle.id, handle.shard = push.id, push.shard.index
        return push

    # ---- jobs ----
    async def submit(self, job: AnyJob, *, retry_dead: int = 0) -> Handle:
        """Sends a job, and returns when Redis has it. See Client.submit."""
        return (await self.submit_many([job], retry_dead=retry_dead))[0]

    async def submit_many(self, jobs: Iterable[AnyJob], *, retry_dead: int = 0) -> List[Handle]:
        """Sends several jobs in one round trip per shard."""
        pushes = [self._prepare(job, retry_dead) for job in jobs]
        await self._submit(pushes)
        return [push.handle for push in pushes]  # type: ignore[misc]

    async def run(self, job: AnyJob, *, timeout: Optional[float] = None,
                  retry_dead: int = 0) -> Result:
        """Sends a job and waits for its result."""
        handle = await self.submit(job, retry_dead=retry_dead)
        try:
            return await handle.result(timeout)
        finally:
            self.forget([handle])

    async def map(self, jobs: Union[Iterable[AnyJob], AsyncIterable[AnyJob]], *, window: int = 64,
                  ordered: bool = False, progress: Optional[Callable[[Progress], object]] = None,
                  retry_dead: int = 0, timeout: Optional[float] = None) -> AsyncIterator[Result]:
        """Yields the result of each job. See Client.map."""
        if window < 1:
            raise ValueError(f"window is {window}; it must be 1 or more")
        held = _Held(_iterate(jobs), ordered)

        async def send(batch: Sequence[AnyJob]) -> None:
            held.add(await self.submit_many(batch, retry_dead=retry_dead))
        state = Progress(0, 0, 0)
        report = progress or (lambda _: None)
        try:
            while held.has_more or held.handles:
                if held.has_more and len(held.handles) < window and not held.is_ready():
                    sent = await held.take(min(PIECE, window - len(held.handles)), send)
                    state = state.after_push(sent)
                    report(state)
                else:
                    result = await (await held.next(timeout))
                    state = state.after(result)
                    report(state)
                    yield result
        finally:
            self.forget(held.handles)

    @staticmethod
    async def results(handles: Iterable[Handle],
                      timeout: Optional[float] = None) -> AsyncIterator[Result]:
        """Yields the results of submitted jobs as they come. See Client.results."""
        held = _Held(_iterate(()), ordered=False)
        held.add(handles)
        while held.handles:
            yield await (await held.next(timeout))

    def forget(self, handles: Iterable[Handle]) -> None:
        """Nobody wants the results of these jobs. The jobs go on; then their bytes are deleted."""
        self._core.forget((handle.shard, handle.id, handle) for handle in handles)

    async def cancel(self, job: Union[str, Handle]) -> Optional[Result]:
        """Cancels all jobs with this id that were sent before. See Client.cancel."""
        id = job.id if isinstance(job, Handle) else job
        result: Optional[Result] = await self._run(self._core.cancel(id))
        return result

    async def kept_result(self, id: str) -> Optional[Result]:
        """The result of a job with this id, which Redis keeps for result_ttl_s. See
        Client.kept_result."""
        result: Optional[Result] = await self._run(self._core.kept(id))
        return result

    # ---- shards ----
    def shard_of(self, id: str) -> int:
        """The shard of the jobs with this id."""
        return self._core.shard_of(id).index

    def namespace_of(self, id: str) -> str:
        """The namespace of the jobs with this id, with which their keys begin."""
        return self._core.shard_of(id).ns

    async def aclose(self) -> None:
        """Ends the tasks. Jobs that have not ended go on without this client."""
        for push in self._core.close():
            push.fail(ClientClosed("the client was closed before the result came"))
        for wake in self._wakes.values():
            wake.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _within(call: "Coroutine[Any, Any, Any]", timeout: Optional[float],
                  undo: Callable[[], None] = lambda: None) -> Any:
    """Like asyncio.wait_for, which before Python 3.12 ignores a cancel that comes with the result.
    This raises it, and calls `undo`."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task], timeout=timeout)
    except BaseException:
        if not task.cancel() and not task.cancelled():
            undo()
        raise
    if task.cancel():
        raise asyncio.TimeoutError
    return task.result()


async def _iterate(jobs: Union[Iterable[AnyJob], AsyncIterable[AnyJob]]) -> AsyncIterator[AnyJob]:
    if isinstance(jobs, AsyncIterable):
        async for job in jobs:
            yield job
    else:
        for job in jobs:
            yield job


class _Held:
    """The handles of a map that are not yielded yet."""

    def __init__(self, source: AsyncIterator[AnyJob], ordered: bool) -> None:
        self.source, self.has_more = source, True
        self.ordered = ordered
        self.handles: Deque[Handle] = deque()
        self._ended: "asyncio.Queue[Handle]" = asyncio.Queue()

    async def take(self, size: int, send: Callable[[Sequence[AnyJob]], Awaitable[None]]) -> int:
        """Takes and sends up to `size` jobs, and returns their number. While the source is slow, a
        task sends the jobs that it has given."""
        batch: List[AnyJob] = []
        taken = 0

        async def send_batch() -> None:
            nonlocal batch
            ready, batch = batch, []
            if ready:
                await send(ready)

        loop = asyncio.get_running_loop()
        sending: "List[asyncio.Task[None]]" = []
        timer = loop.call_later(TAKE_S, lambda: sending.append(loop.create_task(send_batch())))
        end = time.monotonic() + TAKE_S
        try:
            while taken < size:
                try:
                    job = await self.source.__anext__()
                except StopAsyncIteration:
                    self.has_more = False
                    break
                batch.append(job)
                taken += 1
                if self.is_ready() or sending or time.monotonic() > end:
                    break
            for task in sending:
                await task
        finally:
            timer.cancel()
            for task in sending:
                task.cancel()
                await asyncio.wait([task])
        await send_batch()
        return taken

    def add(self, handles: Iterable[Handle]) -> None:
        for handle in handles:
            self.handles.append(handle)
            if not self.ordered:
                handle.when_done(self._ended.put_nowait)

    def is_ready(self) -> bool:
        if self.ordered:
            return bool(self.handles) and self.handles[0].done()
        return not self._ended.empty()

    async def next(self, timeout: Optional[float]) -> Handle:
        if self.ordered:
            await self.handles[0].result(timeout)
            return self.handles.popleft()
        handle: Handle = (await _within(self._ended.get(), timeout) if self._ended.empty() else
                          self._ended.get_nowait())
        self.handles.remove(handle)
        return handle
