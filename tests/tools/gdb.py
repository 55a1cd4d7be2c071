"""gdb.py - gdb commands that show the jobs of a daemon, running or in a core file.

    gdb -p $(pidof gpuimgd) -batch -x tests/tools/gdb.py -ex jobs
    gdb build/release/gpuimgd core -x tests/tools/gdb.py

`jobs` prints a line per job in flight. `job N` prints the job of line N and sets $job to its struct
job_run. All builds of the Makefile have the debugging symbols that this needs.
"""
import time

import gdb


def daemon():
    """The struct daemon: a variable of daemon_run, on the stack of the main thread."""
    thread, frame = gdb.selected_thread(), gdb.selected_frame()
    try:
        for other in gdb.selected_inferior().threads():
            other.switch()
            found = gdb.newest_frame()
            while found and found.name() != "daemon_run":
                found = found.older()
            if found and not found.read_var("daemon").is_optimized_out:
                return found.read_var("daemon").dereference()
    finally:
        thread.switch()
        frame.select()
    raise gdb.GdbError("no thread shows the variable `daemon` of daemon_run: this is no daemon, it "
                       "has not started yet, or it has no debugging symbols")


def runs_of(list_of_runs):
    """The jobs of a struct list, from the first to the last."""
    run = gdb.lookup_type("struct job_run")
    offset = next(field.bitpos // 8 for field in run.fields() if field.name == "node")
    node = list_of_runs["head"]["next"]
    while node != list_of_runs["head"].address:
        yield gdb.Value(int(node) - offset).cast(run.pointer()).dereference()
        node = node["next"]


def runs(pipeline):
    """All jobs in flight: stage by stage, each list in its order, then zombies."""
    for stage in range(pipeline["stages"].type.range()[1] + 1):
        yield from runs_of(pipeline["stages"][stage])
    yield from runs_of(pipeline["zombies"])


def word(run, member, enum):
    """STAGE_DECODE as decode."""
    return str(run[member].cast(gdb.lookup_type("enum " + enum))).split("_", 1)[-1].lower()


def text(pointer):
    return pointer.string(errors="replace") if pointer else ""


def source(run):
    place = run["job"]["input"]
    return next((text(place[kind]) for kind in ("path", "key", "url") if place[kind]), "-")


def now_ns(pipeline):
    """The time of CLOCK_MONOTONIC. A core file has that of the pipeline's last tick."""
    connection = getattr(gdb.selected_inferior(), "connection", None)
    if connection and connection.type == "core":
        return int(pipeline["ticked_ns"])
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def row(run, now):
    """What a worker has reached is shown after the stage, if it differs: read>decode."""
    timing = run["timing"]
    stage, at = word(run, "stage", "stage"), word(run, "at", "stage")
    owner = word(run, "owner", "owner")
    if owner not in ("none", "loop") and at != stage:
        stage += ">" + at
    deadline = int(timing["deadline_ns"].cast(gdb.lookup_type("unsigned long")))
    left = "stopped" if deadline == 2**64 - 1 else "%.1f" % ((deadline - now) / 1e9)
    return (stage, owner, word(run, "outcome", "outcome"),
            "%.1f" % ((now - int(timing["entered_ns"])) / 1e9),
            "%.1f" % ((now - int(timing["fetched_ns"])) / 1e9), left,
            str(int(run["attempt"])), text(run["job"]["id"]) or "-", source(run),
            text(run["error"]["text"]) if int(run["error"]["status"]) else "")


class Jobs(gdb.Command):
    """Prints the jobs in flight: jobs"""

    def __init__(self):
        super().__init__("jobs", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        pipeline = daemon()["pipeline"].dereference()
        now = now_ns(pipeline)
        rows = [("", "stage", "owner", "outcome", "in it, s", "age, s", "left, s", "attempt", "id",
                 "input", "error")]
        rows += [(str(n), *row(run, now)) for n, run in enumerate(runs(pipeline), 1)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for cells in rows:
            gdb.write("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() + "\n")
        gdb.write("%d jobs in flight, %d free slots\n" %
                  (len(rows) - 1, int(pipeline["free"]["length"])))


class Job(gdb.Command):
    """Prints the job of a line of `jobs`, and sets $job to it: job N"""

    def __init__(self):
        super().__init__("job", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        found = list(runs(daemon()["pipeline"].dereference()))
        if not argument.isdigit() or not 1 <= int(argument) <= len(found):
            raise gdb.GdbError("job %s: it must be a line of `jobs`, 1 to %d" % (argument, len(found)))
        gdb.set_convenience_variable("job", found[int(argument) - 1])
        gdb.execute("print -pretty on -- $job")


Jobs()
Job()
