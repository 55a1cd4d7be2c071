#!/usr/bin/python3
"""Compares gpuimgd with other image libraries on the same files and the same work.

    peers.py --build DIR --folder F [--rounds 5] [--seconds 2] [--threads N] [--task edges]
             [--only NAME,...] [--svg FILE]

There are two tasks, both to JPEG of quality 85: `edges` (grayscale, sobel) and `thumbnails`
(512 x 512, inside). The set has all images of 2 to 15 megapixels below the folder, in three
classes: baseline JPEG, progressive JPEG, PNG. In each round, each contestant has a turn of about
--seconds with each class. Turns alternate, so that other load on the machine affects all
contestants alike. A ratio compares turns of the same round; figures are medians over the rounds.

FIGURES.md describes the contestants. vipsthumbnail and mogrify start once per turn with all files.
"""
import argparse
import ctypes
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from PIL import Image

import chart
from rig import Rig, cpu_s, forget_peak, peak_mb

MP_MIN, MP_MAX = 2, 15
SIDE, QUALITY = 512, 85
CLASSES = ["baseline", "progressive", "png"]
OPS = {"edges": ["grayscale", "sobel"],
       "thumbnails": [{"op": "resize", "width": SIDE, "height": SIDE}]}
WARM_FILES = 2


class Photo:
    def __init__(self, path, image):
        self.path = path
        self.mp = image.width * image.height / 1e6
        jpeg = image.format == "JPEG"
        self.kind = "png" if not jpeg else "progressive" if image.info.get("progressive") else \
            "baseline"


def find_photos(folder):
    photos = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            if name.lower().endswith((".jpg", ".jpeg", ".png")) and not os.path.islink(path):
                with Image.open(path) as image:
                    photo = Photo(path, image)
                    if MP_MIN <= photo.mp <= MP_MAX and image.mode != "CMYK":
                        photos.append(photo)
    return photos


# ---- other libraries: a loader returns a function for one file, or for all files together -------

def opencv_edges(mode):
    def load():
        import cv2
        cv2.setNumThreads(1)
        flag = cv2.IMREAD_COLOR if mode == "colour" else cv2.IMREAD_GRAYSCALE

        def one(source, target):
            gray = cv2.imread(source, flag)
            if mode == "colour":
                gray = cv2.cvtColor(gray, cv2.COLOR_BGR2GRAY)
            x = cv2.convertScaleAbs(cv2.Sobel(gray, cv2.CV_16S, 1, 0))
            y = cv2.convertScaleAbs(cv2.Sobel(gray, cv2.CV_16S, 0, 1))
            cv2.imwrite(target, cv2.addWeighted(x, 0.5, y, 0.5, 0),
                        [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        return one
    return load


def opencv_thumbnails(reduced):
    def load():
        import cv2
        cv2.setNumThreads(1)

        def flag_of(source):
            if reduced:
                with Image.open(source) as head: # only the header is read
                    times = max(head.size) // (2 * SIDE)
                for by in (8, 4, 2):
                    if times >= by:
                        return getattr(cv2, f"IMREAD_REDUCED_COLOR_{by}")
            return cv2.IMREAD_COLOR

        def one(source, target):
            image = cv2.imread(source, flag_of(source))
            height, width = image.shape[:2]
            by = min(1, SIDE / max(width, height))
            image = cv2.resize(image, (round(width * by), round(height * by)),
                               interpolation=cv2.INTER_AREA)
            cv2.imwrite(target, image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        return one
    return load


def pillow_thumbnails():
    def one(source, target):
        with Image.open(source) as image:
            image.thumbnail((SIDE, SIDE), Image.LANCZOS)
            image.convert("RGB" if image.mode not in ("L", "RGB") else image.mode) \
                 .save(target, quality=QUALITY)
    return one


def vips_edges():
    os.environ["VIPS_CONCURRENCY"] = "1"
    vips = ctypes.CDLL("libvips.so.42")
    vips.vips_image_new_from_file.restype = ctypes.c_void_p
    vips.vips_error_buffer.restype = ctypes.c_char_p
    vips.g_object_unref.argtypes = [ctypes.c_void_p]
    vips.vips_init(b"peers")
    vips.vips_cache_set_max(0)
    bw, sequential = 1, 1 # VIPS_INTERPRETATION_B_W, VIPS_ACCESS_SEQUENTIAL

    def one(source, target):
        image, gray, edges = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        image.value = vips.vips_image_new_from_file(source.encode(), b"access", sequential, None)
        if not image.value or vips.vips_colourspace(image, ctypes.byref(gray), bw, None) or \
           vips.vips_sobel(gray, ctypes.byref(edges), None) or \
           vips.vips_image_write_to_file(edges, f"{target}[Q={QUALITY}]".encode(), None):
            raise RuntimeError(vips.vips_error_buffer().decode())
        for each in (edges, gray, image):
            vips.g_object_unref(each)
    return one


def command(*words, **environment):
    """Runs a program with all files together; {out} is the output folder."""
    def load():
        os.environ.update(environment)

        def many(sources, folder):
            subprocess.run([word.format(out=folder) for word in words] + sources, check=True,
                           stdout=subprocess.DEVNULL)
        many.takes_all = True
        return many
    return load


MOGRIFY = ["mogrify", "-path", "{out}", "-format", "jpg", "-quality", str(QUALITY)]
THUMBNAIL = ["-thumbnail", f"{SIDE}x{SIDE}>"]
PEERS = {
    "edges": {
        "OpenCV, IMREAD_COLOR": opencv_edges("colour"),
        "OpenCV, IMREAD_GRAYSCALE": opencv_edges("gray"),
        "libvips": vips_edges,
        "ImageMagick, -edge 1": command(*MOGRIFY, "-colorspace", "Gray", "-edge", "1",
                                        MAGICK_THREAD_LIMIT="1"),
    },
    "thumbnails": {
        "OpenCV, INTER_AREA": opencv_thumbnails(False),
        "OpenCV, IMREAD_REDUCED": opencv_thumbnails(True),
        "vipsthumbnail": command("vipsthumbnail", "--size", f"{SIDE}x{SIDE}>", "-o",
                                 "{out}/%s.jpg[Q=" + str(QUALITY) + "]", VIPS_CONCURRENCY="1"),
        "Pillow": pillow_thumbnails,
        "ImageMagick": command(*MOGRIFY, *THUMBNAIL, MAGICK_THREAD_LIMIT="1"),
        "ImageMagick, jpeg:size": command("mogrify", "-define", f"jpeg:size={2 * SIDE}x{2 * SIDE}",
                                          *MOGRIFY[1:], *THUMBNAIL, MAGICK_THREAD_LIMIT="1"),
    },
}


# ---- contestants --------------------------------------------------------------------------------

class Turn:
    def __init__(self, wall, cpu, peak, redis_cpu=0.0):
        self.wall, self.cpu, self.peak, self.redis_cpu = wall, cpu, peak, redis_cpu


def shares(photos, count):
    """Splits the files into parts of about the same number of pixels, one per process."""
    parts = [[] for _ in range(count)]
    for photo in sorted(photos, key=lambda photo: -photo.mp):
        min(parts, key=lambda part: sum(each.mp for each in part)).append(photo)
    return [[photo.path for photo in part] for part in parts]


def work(load, number, pipe, counter, folder):
    """The main function of a peer's process. Answers each turn with CPU seconds and peak MB."""
    with open(os.path.join(folder, "log"), "ab") as log: # warnings about profiles and the like
        os.dup2(log.fileno(), 2)
    do = load()
    while True:
        order = pipe.recv()
        if order is None:
            return
        paths, share, repeats = order
        before = [time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)]
        forget_peak("self")
        if getattr(do, "takes_all", False):
            # A program may treat duplicate names specially, so each repeat starts it again.
            for _ in range(repeats if share else 0):
                do(share, folder)
        else:
            while True:
                with counter.get_lock():
                    at = counter.value
                    counter.value += 1
                if at >= len(paths) * repeats:
                    break
                do(paths[at % len(paths)], f"{folder}/{at % 256}.jpg")
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = time.process_time() - before[0] + children.ru_utime + children.ru_stime - \
            before[1].ru_utime - before[1].ru_stime
        peak = peak_mb("self") if not children.ru_maxrss else children.ru_maxrss * 1024 / 1e6
        pipe.send((cpu, peak))


class Peer:
    def __init__(self, name, load, threads):
        self.name, self.threads = name, threads
        self.counter = multiprocessing.Value("q", 0)
        self.folder = tempfile.TemporaryDirectory(prefix="gpuimgd-bench-")
        self.pipes, self.processes = [], []
        for number in range(threads):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=work, daemon=True, args=(
                load, number, theirs, self.counter, self.folder.name))
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def turn(self, photos, repeats):
        paths = [photo.path for photo in photos]
        self.counter.value = 0
        start = time.monotonic()
        for pipe, share in zip(self.pipes, shares(photos, self.threads)):
            pipe.send((paths, share, repeats))
        try:
            answers = [pipe.recv() for pipe in self.pipes]
        except EOFError:
            with open(os.path.join(self.folder.name, "log"), errors="replace") as log:
                raise RuntimeError(f"{self.name} failed: {log.read()[-2000:]}") from None
        return Turn(time.monotonic() - start, sum(cpu for cpu, _ in answers),
                    sum(peak for _, peak in answers))

    def close(self):
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except BrokenPipeError:
                pass # it failed
        for process in self.processes:
            process.join()
        self.folder.cleanup()


class Floor:
    name = "codec floor"

    def __init__(self, task, photos, options):
        self.programs = {}
        for kind in CLASSES:
            files = [os.path.relpath(photo.path, options.folder) for photo in photos
                     if photo.kind == kind]
            if files:
                program = subprocess.Popen(
                    [f"{options.build}/tests/bench/bench_floor", "--threads", str(options.threads),
                     "--ops", json.dumps(OPS[task]), "--folder", options.folder, *files],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                self.programs[kind] = program
                if program.stdout.readline() != "ready\n":
                    raise RuntimeError("bench_floor did not start")

    def turn(self, photos, repeats):
        program = self.programs[photos[0].kind]
        forget_peak(program.pid)
        program.stdin.write(f"{repeats}\n")
        program.stdin.flush()
        wall, cpu = map(float, program.stdout.readline().split())
        return Turn(wall, cpu, peak_mb(program.pid))

    def close(self):
        for program in self.programs.values():
            program.communicate()


class Gpuimgd:
    name = "gpuimgd"

    def __init__(self, rig, task, folder):
        self.rig, self.task, self.folder = rig, task, folder

    def turn(self, photos, repeats):
        rig = self.rig
        jobs = [json.dumps({"input": os.path.relpath(photo.path, self.folder),
                            "output": f"{number % 256}.jpg", "ops": OPS[self.task]})
                for number, photo in enumerate(photos * repeats)]
        forget_peak(rig.pid)
        cpu, redis = cpu_s(rig.pid), cpu_s(rig.redis_pid)
        wall = rig.run(jobs)
        return Turn(wall, cpu_s(rig.pid) - cpu, peak_mb(rig.pid), cpu_s(rig.redis_pid) - redis)

    def close(self):
        pass


# ---- figures ------------------------------------------------------------------------------------

class Figures:
    """The turns of one contestant: [round][class], each divided by its repeats."""

    def __init__(self, contestant):
        self.contestant, self.rounds = contestant, []

    def sums(self, kinds, what):
        """Returns one number per round: the sum over the classes."""
        return [sum(getattr(turns[kind], what) for kind in kinds) for turns in self.rounds]

    def median(self, kinds, what):
        return statistics.median(self.sums(kinds, what))

    def peak(self, kinds):
        return max(turns[kind].peak for turns in self.rounds for kind in kinds)

    def ratio(self, other, kinds, what):
        """Returns the median over the rounds of own seconds divided by the other's."""
        return statistics.median(mine / its for mine, its in zip(self.sums(kinds, what),
                                                                 other.sums(kinds, what)))


def measure(contestants, photos, options):
    """Returns the figures of each contestant."""
    kinds = {kind: [photo for photo in photos if photo.kind == kind] for kind in CLASSES}
    kinds = {kind: files for kind, files in kinds.items() if files}
    all_figures, repeats = [Figures(each) for each in contestants], {}
    for number in range(-1, options.rounds): # the first warms caches and gives the repeats
        for figures in all_figures:
            turns = {}
            for kind, files in kinds.items():
                times = repeats.get((figures, kind), 1)
                turn = figures.contestant.turn(files, times)
                for what in ("wall", "cpu", "redis_cpu"):
                    setattr(turn, what, getattr(turn, what) / times)
                repeats[figures, kind] = max(1, round(options.seconds / turn.wall))
                turns[kind] = turn
            if number >= 0:
                figures.rounds.append(turns)
        print(f"  round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return all_figures


def table(title, all_figures, kinds, photos):
    """Prints a Markdown table and returns the rows of the chart."""
    files = [photo for photo in photos if photo.kind in kinds]
    mp = sum(photo.mp for photo in files)
    own = next((each for each in all_figures if each.contestant.name == "gpuimgd"), all_figures[0])
    floor = next((each for each in all_figures if each.contestant.name == "codec floor"), own)
    print(f"\n**{title}**: {len(files)} files, {mp:.0f} MP\n")
    print("| | MP/s | images/s | CPU ms per image | its CPU / gpuimgd's | / floor's | "
          "its time / gpuimgd's | / floor's | peak MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for figures in all_figures:
        wall, cpu = figures.median(kinds, "wall"), figures.median(kinds, "cpu")
        redis = figures.median(kinds, "redis_cpu")
        text = f"{cpu * 1e3 / len(files):.2f}"
        if redis:
            text += f" ({(cpu + redis) * 1e3 / len(files):.2f} with Redis)"
        print(f"| {figures.contestant.name} | {mp / wall:.0f} | {len(files) / wall:.1f} | {text} | "
              f"{figures.ratio(own, kinds, 'cpu'):.2f} | {figures.ratio(floor, kinds, 'cpu'):.3f} "
              f"| {figures.ratio(own, kinds, 'wall'):.2f} | "
              f"{figures.ratio(floor, kinds, 'wall'):.3f} | {figures.peak(kinds):.0f} |")
        rows.append((figures.contestant.name, mp / cpu))
    sys.stdout.flush()
    return rows


def summary(task, all_figures, photos):
    """Prints the table for the README."""
    kinds = [kind for kind in CLASSES if any(photo.kind == kind for photo in photos)]
    jpegs = [kind for kind in kinds if kind != "png"] or kinds
    files = [photo for photo in photos if photo.kind in jpegs]
    mp = sum(photo.mp for photo in files)
    own = all_figures[0]
    columns = [jpegs] + [[kind] for kind in kinds] if len(kinds) > 1 else [kinds]
    heads = ["JPEG" if column == jpegs and len(column) > 1 else column[0] for column in columns]
    print(f"\n**{task}, for the README** ({len(files)} JPEG files, {mp:.0f} MP)\n")
    print(f"| {task} | MP per CPU second | CPU ms per image | " +
          " | ".join(f"CPU / gpuimgd's, {head}" for head in heads) + " | time / gpuimgd's |")
    print("| --- " * (4 + len(columns)) + "|")
    for figures in all_figures:
        cpu = figures.median(jpegs, "cpu")
        print(f"| {figures.contestant.name} | {mp / cpu:.0f} | {cpu * 1e3 / len(files):.1f} | " +
              " | ".join(f"{figures.ratio(own, column, 'cpu'):.2f}" for column in columns) +
              f" | {figures.ratio(own, jpegs, 'wall'):.2f} |")


def run_task(task, photos, rig, options):
    contestants = [Gpuimgd(rig, task, options.folder)]
    panels = []
    try:
        contestants.append(Floor(task, photos, options))
        for name, load in PEERS[task].items():
            if not options.only or any(part in name for part in options.only.split(",")):
                contestants.append(Peer(name, load, options.threads))
        all_figures = measure(contestants, photos, options)
    finally:
        for contestant in reversed(contestants): # later ones hold earlier ones' pipes
            contestant.close()
    kinds = {photo.kind for photo in photos}
    jpegs = [kind for kind in ("baseline", "progressive") if kind in kinds]
    if len(jpegs) > 1:
        panels.append((f"{task}, JPEG", table(f"{task}, all JPEG", all_figures, jpegs, photos)))
    for kind in CLASSES:
        if kind in kinds:
            name = "PNG" if kind == "png" else f"{kind} JPEG"
            rows = table(f"{task}, {name}", all_figures, [kind], photos)
            if kind in jpegs[:len(jpegs) == 1]:
                panels.append((f"{task}, {name}", rows))
    summary(task, all_figures, photos)
    return panels


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--folder", required=True, help="where the photographs are")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--task", choices=list(OPS))
    parser.add_argument("--only", help="parts of the names of peers, with commas")
    parser.add_argument("--svg")
    options = parser.parse_args()
    if not os.path.isdir(options.folder):
        sys.exit(f'there is no folder "{options.folder}"; make bench-peers FOLDER=/some/photos')
    options.folder = os.path.realpath(options.folder)
    photos = find_photos(options.folder)
    if not photos:
        sys.exit(f"no image of {MP_MIN} to {MP_MAX} MP below {options.folder}")
    panels = []
    with Rig(f"{options.build}/gpuimgd", options.folder, f"--workers={options.threads}") as rig:
        for task in [options.task] if options.task else OPS:
            panels += run_task(task, photos, rig, options)
    if options.svg:
        chart.bars(options.svg, "Megapixels per CPU second (more is better)", panels)


if __name__ == "__main__":
    main()
