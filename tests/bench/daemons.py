"""Daemons as contestants of host.py: their turns, and what these cost."""
import hashlib
import json
import math
import os
import re
import signal
import statistics
import time

from rig import Rig, TICKS, cpu_s

JOBS_MAX = 200000  # per turn
WARM_JOBS = 64
TURNS_MAX, SPREAD_MAX = 20, 1.2
STALL_S = 30       # a turn without a new result for so long has failed
ALONE_WARM, ALONE_LEAST = 3, 7


class Failed(Exception):
    """Why a row has no figures."""


def thread_us(pid, thread):
    """Returns the CPU time of a thread so far; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            return int(file.read().split()[0]) / 1e3
    except (OSError, ValueError, IndexError):
        pass
    try:
        with open(f"/proc/{pid}/task/{thread}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1e6 / TICKS
    except OSError:
        return 0.0


def thread_name(pid, thread):
    try:
        with open(f"/proc/{pid}/task/{thread}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def children_us(pids):
    """Returns the CPU time so far of the processes' children, also of those that ended."""
    used = 0.0
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(name) in pids:
                used += (int(fields[13]) + int(fields[14])) * 1e6 / TICKS
            elif int(fields[1]) in pids:
                used += sum(thread_us(name, thread) for thread in os.listdir(f"/proc/{name}/task"))
        except (OSError, IndexError): # it has ended
            pass
    return used


class Daemons(Rig):
    """One or several daemons with their default options, on a Redis of their own."""

    def __init__(self, program, folder, count, *options):
        options = ["--sync_outputs=yes", f"--results_max={JOBS_MAX + 1000}", *options]
        super().__init__(program, folder, *options)
        try:
            self.pids, self.logs = [self.pid], ["daemon.log"]
            for number in range(1, count):
                self.logs.append(f"daemon{number}.log")
                self.pids.append(self.start(self.command, self.logs[-1]))
            self.wait_for_logs(r"gpuimgd \S+ on .*: \d+ workers", 1)
        except BaseException:
            self.close()
            raise

    def text(self, log):
        with open(os.path.join(self.folder, log), errors="replace") as file:
            return file.read()

    def wait_for_logs(self, pattern, times, seconds=60):
        """Waits until each log has the pattern `times` times. Returns the last lines that do."""
        end, found = time.monotonic() + seconds, []
        for log in self.logs:
            while len(lines := re.findall(f".*{pattern}.*", self.text(log))) < times:
                ended = any(process.poll() is not None for process in self.processes)
                if ended or time.monotonic() > end:
                    raise Failed(self.last_error(log) or f'the log has no "{pattern}"')
                time.sleep(0.005)
            found.append(lines[-1])
        return found

    def last_error(self, log):
        lines = self.text(log).strip().splitlines()
        errors = [line for line in lines if " error " in line]
        return re.sub(r"^\S+Z \w+ +", "", (errors or lines or [""])[-1])

    def signal_all(self, number):
        for pid in self.pids:
            os.kill(pid, number)

    def pause(self):
        times = min(self.text(log).count("fetching is paused") for log in self.logs) + 1
        self.signal_all(signal.SIGUSR2)
        self.wait_for_logs("fetching is paused", times)

    def stats(self):
        """Returns the sums of the daemons' stats since the last call."""
        times = min(self.text(log).count("stats interval_s=") for log in self.logs) + 1
        self.signal_all(signal.SIGUSR1)
        sums = {}
        for line in self.wait_for_logs("stats interval_s=", times):
            for key, value in re.findall(r" (\w+)=([0-9.]+)", line):
                sums[key] = sums.get(key, 0) + float(value)
        return sums

    def cpu_us(self):
        """Returns the CPU time so far of loops, devices' threads, other threads, Redis, and codec
        processes."""
        loop, device, others = 0, 0, 0
        for pid in self.pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                used = thread_us(pid, thread)
                if int(thread) == pid:
                    loop += used
                elif thread_name(pid, thread) == "device":
                    device += used
                else:
                    others += used
        return loop, device, others, cpu_s(self.redis_pid) * 1e6, children_us(self.pids)

    def wait_for_results(self, count):
        seen, moved = 0, time.monotonic()
        while (got := self.client("LLEN", "gpuimgd:results")) < count:
            now = time.monotonic()
            if got > seen:
                seen, moved = got, now
            if now - moved > STALL_S:
                raise Failed(f"no result for {STALL_S} s: {self.last_error(self.logs[0])}")
            time.sleep(0.001)

    def turn(self, work, count):
        """Runs `count` jobs. Returns figures per second and per job."""
        self.pause()
        self.push([work.job(number) for number in range(count)])
        self.stats()
        before, start = self.cpu_us(), time.monotonic()
        self.signal_all(signal.SIGUSR2)
        self.wait_for_results(count)
        wall = time.monotonic() - start
        used = [now - then for now, then in zip(self.cpu_us(), before)]
        time.sleep(0.05) # a job counts after Redis has acknowledged it
        stats = self.stats()
        if stats["done"] != count:
            raise Failed(f"{count - stats['done']:.0f} of {count} jobs failed: " +
                         self.client("LINDEX", "gpuimgd:results", 0).decode()[:300])
        self.client("UNLINK", "gpuimgd:results")
        return {"wall_s": wall, "images_s": count / wall, "mp_s": count * work.mp / wall,
                "loop_us": used[0] / count, "device_us": used[1] / count,
                "workers_us": used[2] / count, "redis_us": used[3] / count,
                "codecs_us": used[4] / count, "cpus_busy": sum(used) / 1e6 / wall / os.cpu_count(),
                "gpu_busy": stats["gpu_busy"] / len(self.pids) if used[1] else None,
                "on_device": device_share(stats, "decode"),
                "encoded_on_device": device_share(stats, "encode")}

    def alone(self, work):
        """Runs one job. Returns figures of it."""
        before, start = self.cpu_us(), time.monotonic()
        self.push([work.job(0)])
        result = json.loads(self.result(STALL_S))
        wall = time.monotonic() - start
        used = [now - then for now, then in zip(self.cpu_us(), before)]
        if result["status"] != "done":
            raise Failed(f"the job failed: {json.dumps(result)[:300]}")
        return {"wall_s": wall, "alone_ms": wall * 1e3, "images_s": 1 / wall,
                "mp_s": work.mp / wall, "loop_us": used[0], "device_us": used[1],
                "workers_us": used[2], "redis_us": used[3], "codecs_us": used[4],
                "on_device": float(result["decoder"] != "cpu")}

    def digests(self, work):
        found = []
        for number in range(work.kept):
            for i, name in enumerate(work.names(number)):
                path = os.path.join(self.out, name)
                if os.path.exists(path):
                    with open(path, "rb") as file:
                        found.append(((number % len(work.photos), i),
                                      hashlib.blake2b(file.read(), digest_size=16).digest()))
        return found


def device_share(stats, what):
    """Returns the share of the pixels that devices decoded or encoded."""
    device = stats[f"{what}_device_mp_s"]
    every = device + stats[f"{what}_host_mp_s"]
    return device / every if every else None


def measure_rounds(work, runner, options):
    if work.alone:
        times = max(ALONE_LEAST, 2 * options.rounds)
        return [runner.alone(work) for _ in range(ALONE_WARM + times)][ALONE_WARM:]
    # Turns become longer until they take the wanted time, and go on until the last ones are about
    # equally fast: pools fill, a virtual machine may get its memory when it is first used, and a
    # device that runs a hundred images at once needs several hundred jobs.
    def whole(jobs):
        return max(1, min(jobs, JOBS_MAX) // work.batch) * work.batch
    count, turns, seconds = whole(WARM_JOBS), [], options.seconds * work.turn
    for _ in range(TURNS_MAX):
        turn = runner.turn(work, count)
        more = whole(min(4 * count, math.ceil(turn["images_s"] * seconds)))
        if turn["wall_s"] < 0.8 * seconds and more > count:
            turns.clear()
            count = more
            continue
        turns.append(turn)
        speeds = [each["images_s"] for each in turns[-options.rounds:]]
        if len(speeds) == options.rounds and max(speeds) <= SPREAD_MAX * min(speeds):
            break
    if not turns:
        raise Failed(f"no turn took {seconds:g} s")
    return turns[-options.rounds:] # the range shows if they still differ


def middle(turns):
    """Returns the median of each figure, and the range of the speed."""
    row = {}
    for key in turns[0]:
        values = [turn[key] for turn in turns if turn[key] is not None]
        row[key] = statistics.median(values) if values else None
    speeds = [turn["mp_s"] for turn in turns]
    return {**row, "mp_s_least": min(speeds), "mp_s_most": max(speeds)}


def measure_turns(work, runner, options):
    return middle(measure_rounds(work, runner, options))


def measure_daemons(work, daemons, options):
    row = measure_turns(work, daemons, options)
    digests = daemons.digests(work)
    if work.expected is None:
        return row, dict(digests)
    same = sum(work.expected.get(which) == digest for which, digest in digests)
    row["same"] = same / len(digests) if digests else None
    return row, None
