"""Runs a private Redis and a daemon for the Python benches; reads CPU time and memory.

A Rig has a temporary folder. close() ends both processes and removes the folder.
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


def prefer_memory():
    """Lets temporary folders be in memory, unless $TMPDIR is set."""
    if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"


@contextlib.contextmanager
def huge_memory():
    """Temporary folders are on a tmpfs with huge pages, which needs root and free memory."""
    before, folder = tempfile.tempdir, tempfile.mkdtemp(prefix="gpuimgd-huge-")
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=within_size", "gpuimgd-bench", folder],
                       check=True)
        try:
            tempfile.tempdir = folder
            yield
        finally:
            tempfile.tempdir = before
            subprocess.run(["umount", folder], check=True)
    finally:
        os.rmdir(folder)


def cpu_s(pid):
    """Returns the user and system seconds of a process and its threads so far."""
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Redis:
    """A connection over the unix socket; replies are bytes, integers, lists or None."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb", 1 << 16)

    @staticmethod
    def packed(words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return b"".join([b"*%d\r\n" % len(words)] +
                        [b"$%d\r\n%s\r\n" % (len(word), word) for word in words])

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-" or not line:
            raise RuntimeError(f"Redis: {rest.decode() or 'connection closed'}")
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def __call__(self, *words):
        self.socket.sendall(self.packed(words))
        return self.reply()


class Rig:
    def __init__(self, daemon, input_root, *options):
        self.processes = []
        self.folder = tempfile.mkdtemp(prefix="gpuimgd-bench-")
        try:
            self.out = self.make("out")
            self.redis_pid, self.client = self.start_redis()
            self.command = [daemon, f"--redis=unix:{self.folder}/redis.sock",
                            f"--input_root={input_root}", f"--output_root={self.out}",
                            "--engine=cpu", "--sync_outputs=no", "--stats_interval_s=0", *options]
            self.pid = self.start(self.command, "daemon.log")
        except BaseException:
            self.close()
            raise

    def make(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def start(self, command, log):
        with open(os.path.join(self.folder, log), "wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output)
        self.processes.append(process)
        return process.pid

    def start_redis(self):
        path = os.path.join(self.folder, "redis.sock")
        pid = self.start(["redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                          "--appendonly", "no", "--dir", self.folder], "redis.log")
        for _ in range(500):
            try:
                return pid, Redis(path)
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("redis-server does not answer")

    def push(self, jobs):
        """Pushes jobs (JSON texts) with LPUSH, 1,000 per command."""
        for at in range(0, len(jobs), 1000):
            self.client("LPUSH", "gpuimgd:jobs", *jobs[at:at + 1000])

    def result(self, seconds=60):
        reply = self.client("BRPOP", "gpuimgd:results", seconds)
        if reply is None:
            raise RuntimeError(f"no result for {seconds} s; {self.tail('daemon.log')}")
        return reply[1]

    def run(self, jobs):
        """Pushes jobs and waits for their results. Returns wall seconds; raises if a job failed."""
        start = time.monotonic()
        self.push(jobs)
        results = [self.result() for _ in jobs]
        wall = time.monotonic() - start
        for result in results:
            if json.loads(result)["status"] != "done":
                raise RuntimeError(f"a job failed: {result.decode()}")
        return wall

    def tail(self, name):
        with open(os.path.join(self.folder, name), errors="replace") as file:
            return file.read()[-2000:]

    def signal(self, number):
        os.kill(self.pid, number)

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
