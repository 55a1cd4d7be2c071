#!/usr/bin/env python3
"""Measures the daemon end to end on this host: from Redis to files, with every device and without.

    host.py --build DIR --folder F [--rounds 2] [--seconds 1] [--limit 140] [--only WORD,...]
            [--contestants WORD,...] [--cuda-daemon PROGRAM] [--cuda-options OPTIONS]
            [--huge-pages] [--json FILE]

The photographs of the folder are copied to memory (/dev/shm), where the outputs go, too. With
--huge-pages it is a tmpfs of its own with huge pages (root), where large files cost less. The works:

- JPEG to edges (grayscale, sobel) and to thumbnails (512 x 512, inside), of quality 85: the
  baseline files, the progressive files, or both ("mixed"). A few photographs are copied until
  there are 64 files in all, because jobs that read one file at the same time slow each other down.
- thumbnails of the baseline files as WebP, AVIF and PNG, their edges as PNG, whole photographs as
  WebP, and three sizes per job (1200, 640 and 320 pixels) as JPEG or WebP
- the job of a photo site from README.md, for the baseline files, and the same without AVIF
- PNG to edges as PNG, and to JPEG thumbnails: the baseline files, as PNGs of the daemon
- three sizes per job of files like those of a phone (phone.py)
- gray JPEG to PNG, without operations: the baseline files, as gray JPEGs of the daemon
- 256 x 256 to edges: 64 files of quality 92, made from squares of the photographs; also with
  several daemons on one Redis
- one image of 50 MP alone to edges; the time is from the push to the result

The contestants are the daemon with its default options on all devices, on the first device and on
the CPU engine, and the codec floor (floor.h) on all CPUs, which writes no files.

For each turn the daemons are paused (SIGUSR2) until all jobs are in the list; the clock stops when
the last result has arrived. Figures are medians over the rounds. CPU times are per job: "loop" of
the daemons' main threads, "device" of the threads that serve a device, and "workers" of the others.
"same" is the share of output files that are byte-identical to the CPU engine's. "on device" is the
share of pixels decoded there.

A row that fails says why, and the others go on. No row begins after --limit seconds. --only takes
parts of the names of works, and --contestants of those of contestants. --cuda-daemon is the program
for the rows with devices, and --cuda-options are more options of theirs.
"""
import argparse
import contextlib
import hashlib
import json
import math
import os
import platform
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import phone
from rig import Rig, TICKS, cpu_s, huge_memory, prefer_memory

EDGES = ["grayscale", "sobel"]
def fit(side):
    return [{"op": "resize", "width": side, "height": side}]


THUMBNAILS = fit(512)
def three_sizes(suffix):
    return [(suffix, fit(side)) for side in (1200, 640, 320)]


def with_logo(resize):
    return ["to_srgb", {"op": "resize", **resize},
            {"op": "composite", "input": "logo.png", "gravity": "southeast", "scale": 0.2}]


# The outputs of the job in README.md.
SITE_WEBP = ("webp", with_logo({"width": 1200}), {"quality": 75})
SITE_AVIF = ("avif", with_logo({"width": 640}), {"quality": 50})
SITE_JPEG = ("jpg", with_logo({"width": 320, "height": 320, "fit": "cover", "gravity": "attention"}),
             {"max_bytes": 15000, "metadata": ["copyright"]})
SITE_HASH = (None, ["to_srgb", {"op": "resize", "width": 64}, "blurhash"])
SMALL_SIDE, SMALL_FILES, SMALL_QUALITY = 256, 64, 92
LARGE_WIDTH, LARGE_HEIGHT, LARGE_QUALITY = 8640, 5760, 92 # 49.8 MP: pixels_max is 50 MP
MP_MIN, MP_MAX, FILES_MAX = 0.5, 50, 128
FILES_LEAST = 64   # with copies
PHONE_FILES, PHONE_COPIES = 6, 6
OUTPUTS = 256      # names of outputs, overwritten in turn
JOBS_MAX = 200000  # per turn
WARM_JOBS = 64
TURNS_MAX, SPREAD_MAX = 20, 1.2
PROGRESSIVE_TURN = 3 # times as long, because a device needs up to half a second for such a file
STALL_S = 30       # a turn without a new result for so long has failed
ALONE_WARM, ALONE_LEAST = 3, 7


class Failed(Exception):
    """Why a row has no figures."""


# ---- files --------------------------------------------------------------------------------------

class Photo:
    def __init__(self, path, width, height, kind):
        self.path, self.name = path, os.path.basename(path)
        self.width, self.height, self.kind = width, height, kind
        self.mp = width * height / 1e6


def read_head(path):
    """Returns width, height and kind of a JPEG that every contestant can decode, or None."""
    with open(path, "rb") as file:
        data = file.read(1 << 20)
    at = 2
    while data[:2] == b"\xff\xd8" and at + 10 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2:at + 4], "big")
        if marker in (0xC0, 0xC1, 0xC2):
            height, width = (int.from_bytes(data[at + i:at + i + 2], "big") for i in (5, 7))
            usable = data[at + 4] == 8 and data[at + 9] in (1, 3)
            kind = "progressive" if marker == 0xC2 else "baseline"
            return (width, height, kind) if usable else None
        at += 2 + length
    return None


def copy_photos(source, folder):
    """Copies the JPEGs to the folder, as 0.jpg, 1.jpg, ..., and returns them."""
    photos, found = [], find_photos(source)
    copies = math.ceil(FILES_LEAST / max(1, len(found)))
    for path, head in found * copies:
        target = os.path.join(folder, f"{len(photos)}.jpg")
        shutil.copyfile(path, target)
        photos.append(Photo(target, *head))
    return photos


def find_photos(source):
    """Returns path and head of each JPEG."""
    found = []
    for place, folders, names in os.walk(source):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            head = read_head(path) if name.lower().endswith((".jpg", ".jpeg")) else None
            if head and MP_MIN <= head[0] * head[1] / 1e6 <= MP_MAX and len(found) < FILES_MAX:
                found.append((path, head))
    return found


def make_small(options, photos, folder):
    """Lets the daemon make 256 x 256 files from squares of the photographs."""
    chance, jobs, made = random.Random(1), [], []
    for i in range(SMALL_FILES):
        photo = photos[i % len(photos)]
        side = chance.randint(SMALL_SIDE, min(photo.width, photo.height))
        crop = {"op": "crop", "width": side, "height": side,
                "x": chance.randint(0, photo.width - side),
                "y": chance.randint(0, photo.height - side)}
        resize = {"op": "resize", "width": SMALL_SIDE, "height": SMALL_SIDE, "fit": "exact"}
        name = f"small-{i}.jpg"
        jobs.append(json.dumps({"input": photo.name, "ops": [crop, resize],
                                "output": {"path": name, "quality": SMALL_QUALITY}}))
        made.append(Photo(os.path.join(folder, name), SMALL_SIDE, SMALL_SIDE, "small"))
    with Rig(f"{options.build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        rig.run(jobs)
    return made


def make_copies(options, photos, folder, suffix, kind, **how):
    """Lets the daemon write the photographs again, as NAME + suffix. how: members of the output."""
    jobs, made = [], []
    for photo in photos:
        name = photo.name.replace(".jpg", suffix)
        jobs.append(json.dumps({"input": photo.name, "output": {"path": name, **how}}))
        made.append(Photo(os.path.join(folder, name), photo.width, photo.height, kind))
    with Rig(f"{options.build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        rig.run(jobs)
    return made


def make_pngs(options, photos, folder):
    return make_copies(options, photos, folder, ".png", "png")


def make_grays(options, photos, folder):
    return make_copies(options, photos, folder, "-gray.jpg", "gray", subsampling="gray")


def make_phone(options, photos, folder):
    names = [photo.name for photo in photos[:PHONE_FILES]]
    made = phone.make(f"{options.build}/gpuimgd", names, folder)
    copies = [path.replace("-phone", f"-phone{copy}") for copy in range(PHONE_COPIES)
              for path, _, _ in made]
    for i, copy in enumerate(copies):
        shutil.copyfile(made[i % len(made)][0], copy)
    return [Photo(copy, phone.WIDTH, phone.HEIGHT, "phone") for copy in copies]


def write_logo(folder):
    """Writes a white overlay of 640 x 320 pixels that lets half of the image through."""
    rows = (b"\0" + bytes((255, 255, 255, 128)) * 640) * 320
    with open(os.path.join(folder, "logo.png"), "wb") as file:
        file.write(phone.png(640, 320, 6, rows))


def make_large(options, photos, folder):
    source, target = os.path.join(folder, "tile"), os.path.join(folder, "large.jpg")
    os.mkdir(source)
    most = max((photo for photo in photos if photo.kind == "baseline"), key=lambda each: each.mp)
    os.link(most.path, os.path.join(source, most.name))
    subprocess.run([f"{options.build}/tests/bench/bench_tile", "--folder", source, "--width",
                    str(LARGE_WIDTH), "--height", str(LARGE_HEIGHT), "--quality",
                    str(LARGE_QUALITY), target], check=True)
    return [Photo(target, LARGE_WIDTH, LARGE_HEIGHT, "large")]


class Work:
    """One kind of job on a set of files. outputs: suffix and operations of each output, and members
    of its "output" if it needs any; without a suffix, it only gives values."""

    def __init__(self, name, ops, photos, alone=False, turn=1, outputs=None):
        self.name, self.ops, self.photos, self.turn = name, ops, photos, turn
        self.alone = alone
        self.outputs = outputs or [("jpg", ops)]
        self.expected = None                # digests of the CPU engine's outputs

    @property
    def mp(self):
        return sum(photo.mp for photo in self.photos) / len(self.photos)

    @property
    def kept(self):
        """Jobs whose outputs are kept. A multiple of the number of files, so that an output always
        has the same input."""
        return len(self.photos) * max(1, OUTPUTS // len(self.photos))

    def names(self, number):
        """The outputs' names."""
        base = f"{self.name.replace(' ', '-')}-{number % self.kept}"
        return [f"{base}-{i}.{suffix}" for i, (suffix, *_) in enumerate(self.outputs) if suffix]

    def job(self, number):
        names, outputs = iter(self.names(number)), []
        for suffix, ops, *settings in self.outputs:
            place = {"output": {"path": next(names), **dict(*settings)}} if suffix else {}
            outputs.append({**place, "ops": ops})
        return json.dumps({"input": self.photos[number % len(self.photos)].name,
                           **(outputs[0] if len(outputs) == 1 else {"outputs": outputs})})


def make_works(options, folder):
    """Returns the works, and prints why others are missing."""
    photos = copy_photos(options.folder, folder)
    kinds = {kind: [photo for photo in photos if photo.kind == kind]
             for kind in ("baseline", "progressive")}
    works = [Work("baseline to edges", EDGES, kinds["baseline"]),
             Work("baseline to thumbnails", THUMBNAILS, kinds["baseline"]),
             Work("mixed to edges", EDGES, photos if all(kinds.values()) else [],
                  turn=PROGRESSIVE_TURN),
             Work("progressive to edges", EDGES, kinds["progressive"], turn=PROGRESSIVE_TURN)]
    for name, outputs in [("thumbnails as WebP", [("webp", THUMBNAILS)]),
                          ("thumbnails as AVIF", [("avif", THUMBNAILS)]),
                          ("thumbnails as PNG", [("png", THUMBNAILS)]),
                          ("edges as PNG", [("png", EDGES)]),
                          ("WebP", [("webp", [])]),
                          ("three sizes", three_sizes("jpg")),
                          ("three sizes as WebP", three_sizes("webp")),
                          ("photo site without AVIF", [SITE_WEBP, SITE_JPEG, SITE_HASH]),
                          ("photo site", [SITE_WEBP, SITE_AVIF, SITE_JPEG, SITE_HASH])]:
        works.append(Work(f"baseline to {name}", None, kinds["baseline"], outputs=outputs))
    write_logo(folder)
    makers = [("PNG to edges as PNG", make_pngs, {"outputs": [("png", EDGES)]}),
              ("PNG to thumbnails", make_pngs, {"outputs": [("jpg", THUMBNAILS)]}),
              ("phone to three sizes", make_phone, {"outputs": three_sizes("jpg")}),
              ("gray baseline to PNG", make_grays, {"outputs": [("png", [])]}),
              ("256 x 256 to edges", make_small, {}),
              ("50 MP alone", make_large, {"alone": True})]
    for name, make, how in makers:
        if is_wanted(options, name) and kinds["baseline"]:
            try:
                works.append(Work(name, EDGES, make(options, kinds["baseline"], folder), **how))
            except Exception as error: # the other works go on
                print(f"{name}: the files cannot be made: {error}")
    for work in works:
        if not work.photos:
            print(f"{work.name}: the folder has no such photographs of {MP_MIN} to {MP_MAX} MP")
    return [work for work in works if work.photos and is_wanted(options, work.name)]


def is_wanted(options, name):
    return not options.only or any(word in name for word in options.only.split(","))


# ---- daemons ------------------------------------------------------------------------------------

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
        """Returns the CPU time so far of loops, devices' threads, other threads, and Redis."""
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
        return loop, device, others, cpu_s(self.redis_pid) * 1e6

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
        decoded = stats["decode_host_mp_s"] + stats["decode_device_mp_s"]
        return {"wall_s": wall, "images_s": count / wall, "mp_s": count * work.mp / wall,
                "loop_us": used[0] / count, "device_us": used[1] / count,
                "workers_us": used[2] / count, "redis_us": used[3] / count,
                "gpu_busy": stats["gpu_busy"] / len(self.pids),
                "on_device": stats["decode_device_mp_s"] / decoded if decoded else None}

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
                "workers_us": used[2], "redis_us": used[3],
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


def measure_rounds(work, daemons, options):
    if work.alone:
        times = max(ALONE_LEAST, 2 * options.rounds)
        return [daemons.alone(work) for _ in range(ALONE_WARM + times)][ALONE_WARM:]
    # Turns become longer until they take the wanted time, and go on until the last ones are about
    # equally fast: pools fill, a virtual machine may get its memory when it is first used, and a
    # device that runs a hundred images at once needs several hundred jobs.
    count, turns, seconds = WARM_JOBS, [], options.seconds * work.turn
    for _ in range(TURNS_MAX):
        turn = daemons.turn(work, count)
        if turn["wall_s"] < 0.8 * seconds and count < JOBS_MAX:
            turns.clear()
            count = min(4 * count, math.ceil(turn["images_s"] * seconds), JOBS_MAX)
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


def measure_daemons(work, daemons, options):
    row = middle(measure_rounds(work, daemons, options))
    digests = daemons.digests(work)
    if work.expected is None:
        return row, dict(digests)
    same = sum(work.expected.get(which) == digest for which, digest in digests)
    row["same"] = same / len(digests) if digests else None
    return row, None


# ---- other contestants --------------------------------------------------------------------------

def measure_floor(work, options):
    files = [photo.name for photo in work.photos]
    command = [f"{options.build}/tests/bench/bench_floor", "--threads", str(options.threads),
               "--ops", json.dumps(work.ops), "--folder", os.path.dirname(work.photos[0].path)]
    program = subprocess.Popen(command + files, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    turns, repeats = [], 1
    try:
        if program.stdout.readline() != "ready\n":
            raise Failed("bench_floor did not start")
        for _ in range(1 + options.rounds):
            program.stdin.write(f"{repeats}\n")
            program.stdin.flush()
            words = program.stdout.readline().split()
            if len(words) != 2:
                raise Failed("bench_floor failed")
            wall, used, images = float(words[0]), float(words[1]), len(files) * repeats
            turns.append({"wall_s": wall, "images_s": images / wall, "mp_s": images * work.mp / wall,
                          "workers_us": used * 1e6 / images})
            if work.alone:
                turns[-1]["alone_ms"] = wall * 1e3
            else:
                repeats = max(1, round(repeats * options.seconds / wall))
    finally:
        program.stdin.close()
        program.wait()
    return middle(turns[1:])


# ---- rows ---------------------------------------------------------------------------------------

HEAD = (f"{'':24} {'GP/s':>7} {'images/s':>9} {'alone ms':>8} {'loop us':>8} {'workers us':>10} "
        f"{'device us':>9} {'Redis us':>8} {'of floor':>8} {'on device':>9} {'same':>6}")


def cell(value, width, digits, scale=1.0, unit=""):
    return f"{'-' if value is None else f'{value * scale:.{digits}f}{unit}':>{width}}"


class Report:
    """The rows so far. Prints and saves each row when it is known."""

    def __init__(self, options):
        self.path, self.rows, self.floors, self.work = options.json, [], {}, None
        self.limit_s, self.end = options.limit, time.monotonic() + options.limit
        self.against = options.contestants.split(",") if options.contestants else []
        self.results = {"host": {"cpus": os.cpu_count(), "machine": platform.machine()},
                        "rounds": options.rounds, "seconds": options.seconds,
                        "huge_pages": options.huge_pages, "rows": self.rows}

    def add(self, work, contestant, measure):
        """Measures a row. A failure becomes the row's reason."""
        if self.against and not any(word in contestant for word in self.against):
            return {}
        row = {"work": work.name, "contestant": contestant, "files": len(work.photos),
               "mp_per_image": work.mp}
        try:
            if time.monotonic() > self.end:
                raise Failed(f"left out: the limit of {self.limit_s:g} s has passed")
            row.update(measure())
        except Exception as error: # the other rows go on
            row["failed"] = str(error) or type(error).__name__
        floor = self.floors.get(work.name)
        if floor and "failed" not in row:
            row["of_floor"] = row["mp_s"] / floor
        self.rows.append(row)
        self.show(row)
        self.save()
        return row

    def save(self):
        if self.path:
            with open(self.path, "w") as file:
                json.dump(self.results, file, indent=1)

    def show(self, row):
        if row["work"] != self.work:
            self.work = row["work"]
            print(f"\n{row['work']} ({row['files']} files, {row['mp_per_image']:.2f} MP each)\n"
                  f"{HEAD}")
        if "failed" in row:
            print(f"{row['contestant']:24} {row['failed']}", flush=True)
            return
        get = row.get
        print(f"{row['contestant']:24} {cell(get('mp_s'), 7, 3, 1e-3)} "
              f"{cell(get('images_s'), 9, 1)} {cell(get('alone_ms'), 8, 1)} "
              f"{cell(get('loop_us'), 8, 1)} {cell(get('workers_us'), 10, 1)} "
              f"{cell(get('device_us'), 9, 1)} {cell(get('redis_us'), 8, 1)} "
              f"{cell(get('of_floor'), 8, 2)} "
              f"{cell(get('on_device'), 9, 0, 100, '%')} {cell(get('same'), 6, 1, 100, '%')}",
              flush=True)


class Contestant:
    """Daemons that serve all works. Opened once, because the start of CUDA takes seconds."""

    def __init__(self, name, program, folder, count, *options):
        self.name, self.daemons, self.why = name, None, None
        self.description = ""
        try:
            self.daemons = Daemons(program, folder, count, *options)
            line = self.daemons.wait_for_logs(r"gpuimgd \S+ on .*: \d+ workers", 1)[0]
            self.description = re.search(r"gpuimgd \S+ on (.*)", line).group(1)
        except Exception as error:
            self.why = str(error)

    def devices(self):
        """Returns the number of devices: "2 x NVIDIA H200, ..."."""
        several = re.match(r"(\d+) x ", self.description)
        return int(several.group(1)) if several else 1

    def measure(self, work, options):
        """Returns the row. The CPU engine's outputs become the expected ones."""
        if self.why:
            raise Failed(self.why)
        if work.alone and len(self.daemons.pids) > 1:
            raise Failed("several daemons")
        row, digests = measure_daemons(work, self.daemons, options)
        if digests is not None and self.name == "CPU engine":
            work.expected = digests
        return row

    def close(self):
        if self.daemons:
            self.daemons.close()
        self.daemons = None


def open_contestants(options, folder):
    """CPU first: its outputs are those to which the others are compared."""
    program = f"{options.build}/gpuimgd"
    found = [Contestant("CPU engine", program, folder, 1, "--engine=cpu")]
    every = Contestant("all devices", options.cuda_daemon or program, folder, 1, "--engine=cuda",
                       *options.cuda_options)
    print(f"CPU engine: {found[0].why or found[0].description}\n"
          f"devices: {every.why or every.description}", flush=True)
    if every.devices() > 1:
        found.append(Contestant("device 0", options.cuda_daemon or program, folder, 1,
                                "--engine=cuda", "--devices=0", *options.cuda_options))
    elif not every.why:
        every.name = "device 0" # the only one
    return found + [every]


def run_work(work, contestants, options, report):
    if work.ops: # bench_floor writes one JPEG
        floor = report.add(work, "codec floor", lambda: measure_floor(work, options))
        report.floors[work.name] = floor.get("mp_s")
    for each in contestants:
        report.add(work, each.name, lambda each=each: each.measure(work, options))


def run_several(work, options, folder, report):
    """The small images with several daemons on one Redis."""
    program = f"{options.build}/gpuimgd"
    for engine in ("cpu", "cuda"):
        for count in options.daemons:
            name = f"{'CPU engine' if engine == 'cpu' else 'all devices'}, {count} daemons"
            used = program if engine == "cpu" else options.cuda_daemon or program
            more = options.cuda_options if engine == "cuda" else []

            def measure(name=name, used=used, count=count, engine=engine, more=more):
                group = Contestant(name, used, folder, count, f"--engine={engine}", *more)
                try:
                    return group.measure(work, options)
                finally:
                    group.close()
            report.add(work, name, measure)


def run(options):
    report = Report(options)
    contestants = []
    with tempfile.TemporaryDirectory(prefix="gpuimgd-bench-") as folder:
        works = make_works(options, folder)
        if not works:
            sys.exit(f"no work for the JPEGs of {MP_MIN} to {MP_MAX} MP below {options.folder}")
        try:
            contestants = open_contestants(options, folder)
            report.results["host"]["engines"] = {each.name: each.description or each.why
                                                 for each in contestants}
            for work in works:
                run_work(work, contestants, options, report)
        finally:
            for each in contestants:
                each.close()
        for work in works:
            if work.name.startswith("256"):
                run_several(work, options, folder, report)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build")
    parser.add_argument("--folder", help="where the photographs are")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--daemons", default="2,4" if os.cpu_count() >= 16 else "2")
    parser.add_argument("--limit", type=float, default=140)
    parser.add_argument("--only", help="parts of the names of works, with commas")
    parser.add_argument("--contestants", help="parts of their names, with commas")
    parser.add_argument("--cuda-daemon", help="program for the rows with devices")
    parser.add_argument("--cuda-options", default="", type=str.split,
                        help="more options of those rows, with spaces")
    parser.add_argument("--huge-pages", action="store_true",
                        help="files on a tmpfs with huge=within_size")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    if not options.build or not options.folder or not os.path.isdir(options.folder):
        sys.exit(f'there is no folder "{options.folder}"; make bench-host FOLDER=/some/photos')
    options.folder = os.path.realpath(options.folder)
    options.daemons = [int(count) for count in options.daemons.split(",")]
    return options


def main():
    options = read_options()
    prefer_memory()
    with huge_memory() if options.huge_pages else contextlib.nullcontext():
        run(options)
    if options.json:
        print(f"\nresults: {options.json}")


if __name__ == "__main__":
    main()
