#!/usr/bin/env python3
"""Measures the daemon end to end on this host: from Redis to files, with every device and without.

    host.py --build DIR --folder F [--rounds 2] [--seconds 1] [--limit 240] [--only WORD,...]
            [--contestants WORD,...] [--libvips FILE] [--cuda-daemon PROGRAM]
            [--cuda-options OPTIONS] [--huge-pages] [--json FILE]

The photographs of the folder are copied to memory (/dev/shm), where the outputs go, too. With
--huge-pages it is a tmpfs of its own with huge pages (root), where large files cost less. The
works:

- two mixes (mixes.py): a web proxy, with small files of all formats, and uploads of 12 MP
- JPEG to edges (grayscale, sobel) and to thumbnails (512 x 512, inside), of quality 85: the
  baseline files, the progressive files, or both ("mixed"). A few photographs are copied until
  there are 64 files in all, because jobs that read one file at the same time slow each other down.
- thumbnails of the baseline files with a similarity (SSIM) of 0.98 instead of a quality, and as
  WebP, AVIF and PNG, their edges as PNG, whole photographs as
  WebP, and three sizes per job (1200, 640 and 320 pixels) as JPEG or WebP
- the job of a photo site from README.md, for the baseline files, and the same without AVIF
- PNG to edges as PNG, and to JPEG thumbnails: the baseline files, as PNGs of the daemon
- three sizes per job of files like those of a phone (phone.py)
- progressive JPEGs like those of the web, 0.2 to 1 MP, to edges: the baseline files, made smaller
- gray JPEG to PNG, without operations: the baseline files, as gray JPEGs of the daemon
- 256 x 256 to edges: 64 files of quality 92, made from squares of the photographs; also with
  several daemons on one Redis
- one image of 50 MP alone to edges; the time is from the push to the result

The contestants are the daemon with its default options on all devices, on the first device and on
the CPU engine; the codec floor (floor.h) on all CPUs, which writes no files; and for the mixes,
libvips on all CPUs (vips.py).

For each turn the daemons are paused (SIGUSR2) until all jobs are in the list; the clock stops when
the last result has arrived. Figures are medians over the rounds. CPU times are per job: "loop" of
the daemons' main threads, "device" of the threads that serve a device, "workers" of the others, and
"codecs" of the codec processes. "CPUs" is how busy these and Redis keep all CPUs, and "device" the
share of the time in which a copy or kernel ran. "same" is the share of output files that are
byte-identical to the CPU engine's. "on device" is the share of pixels decoded there, and "encoded"
that of pixels encoded there.

A row that fails says why, and the others go on. No row begins after --limit seconds. --only takes
parts of the names of works, and --contestants of those of contestants. --cuda-daemon is the program
for the rows with devices, and --cuda-options are more options of theirs.
"""
import argparse
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time

from daemons import Daemons, Failed, measure_daemons, middle
from mixes import MIXES, make_mixes
from photos import MP_MAX, MP_MIN, copy_photos
from rig import huge_memory, prefer_memory
from vips import measure_vips
from works import make_works


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
            turns.append({"wall_s": wall, "images_s": images / wall,
                          "mp_s": images * work.mp / wall, "workers_us": used * 1e6 / images})
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
        f"{'device us':>9} {'Redis us':>8} {'of floor':>8} {'on device':>9} {'same':>6} "
        f"{'codecs us':>9} {'CPUs':>5} {'device':>6} {'encoded':>7}")


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

    def compare(self):
        """Prints how many times as many images per second a row of a mix has as the others."""
        speeds = {}
        for row in self.rows:
            if row["work"] in MIXES and "failed" not in row:
                speeds.setdefault(row["work"], {})[row["contestant"]] = row["images_s"]
        for work, of in speeds.items():
            print(f"\n{work}: {', '.join(f'{name} {speed:,.0f}' for name, speed in of.items())} "
                  "images/s")
            for name, speed in of.items():
                others = [f"{speed / of[other]:.2f} x {other}"
                          for other in ("CPU engine", "libvips") if other in of and other != name]
                if others and name != "libvips":
                    print(f"{name} = {', '.join(others)}")

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
              f"{cell(get('on_device'), 9, 0, 100, '%')} {cell(get('same'), 6, 1, 100, '%')} "
              f"{cell(get('codecs_us'), 9, 1)} {cell(get('cpus_busy'), 5, 0, 100, '%')} "
              f"{cell(get('gpu_busy'), 6, 0, 100, '%')} "
              f"{cell(get('encoded_on_device'), 7, 0, 100, '%')}", flush=True)


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
    if work.name in MIXES:
        report.add(work, "libvips", lambda: measure_vips(work, options))


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
        photos = copy_photos(options.folder, folder)
        works = make_mixes(options, photos, folder) + make_works(options, photos, folder)
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
    report.compare()


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build")
    parser.add_argument("--folder", help="where the photographs are")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--daemons", default="2,4" if os.cpu_count() >= 16 else "2")
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--only", help="parts of the names of works, with commas")
    parser.add_argument("--contestants", help="parts of their names, with commas")
    parser.add_argument("--libvips", help="the library for the rows of libvips")
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
