#!/usr/bin/python3
"""Compares the efforts of AVIF, and WebP, by the sizes of their files at equal quality.

    avif.py --build DIR --folder F [--photos 24] [--widths 640,1200] [--screens 4]
            [--efforts 0,1,2,3,4,5,6] [--qualities 10,25,40,55,70,85] [--scored 4]
            [--json FILE] [--svg FILE]

The sets are the first photographs below the folder, made smaller to each width, and drawn
screenshots. Each image is encoded with every effort and quality. The BD rate (Bjontegaard, 2001) is
the mean difference of the sizes at equal PSNR or SSIM of luma; negative: smaller files than those
of effort 0, the fastest speed of libaom. SSIMULACRA2 is computed for the first --scored images of a set,
if its Python package is in build/DIR/ssimulacra2. Times are CPU ms of one thread.
"""
import argparse
import collections
import json
import math
import os
import statistics
import subprocess
import tempfile

from PIL import Image

import chart
from photos import find_photos
from screens import draw_screen

ANCHOR = "effort 0"
WEBP, WEBP_EFFORT, WEBP_QUALITIES = "WebP", 2, (10, 30, 50, 65, 80, 92)
SCREEN, SCREEN_SCALES = (1280, 800), (1, 2)
METRICS = {"psnr_y": "PSNR-Y", "ssim": "SSIM", "ssimulacra2": "SSIMULACRA2"}
COLORS = ["#6b7785", "#2b6fc2", "#18804b", "#b08800", "#7c4dcb", "#c2366b", "#0f8a8a"]
WEBP_COLOR = "#d1541f"
SCORE = """
import sys
from ssimulacra2 import compute_ssimulacra2
for line in sys.stdin:
    a, b = line.rstrip("\\n").split("\\t")
    print(compute_ssimulacra2(a, b), flush=True)
"""


# ---- images --------------------------------------------------------------------------------------

def make_photos(source, folder, width, most):
    made = []
    for path, (wide, high, _) in find_photos(source):
        if wide < width or len(made) == most:
            continue
        made.append(f"{folder}/photo{width}-{len(made)}.png")
        with Image.open(path) as image:
            size = width, max(1, round(high * width / wide))
            image.convert("RGB").resize(size, Image.LANCZOS).save(made[-1], compress_level=1)
    return made


def make_screens(folder, count):
    made = []
    for number in range(count):
        made.append(f"{folder}/screen-{number}.png")
        draw_screen(made[-1], number, *SCREEN, SCREEN_SCALES[number % len(SCREEN_SCALES)])
    return made


# ---- points --------------------------------------------------------------------------------------

class Scorer:
    """Computes SSIMULACRA2 in another Python, if that has the package."""

    def __init__(self, build):
        python = f"{build}/ssimulacra2/bin/python"
        self.process = None
        if os.path.exists(python) and subprocess.run([python, "-c", "import ssimulacra2"],
                                                     stderr=subprocess.DEVNULL).returncode == 0:
            self.process = subprocess.Popen([python, "-c", SCORE], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True)

    def score(self, a, b):
        self.process.stdin.write(f"{a}\t{b}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def measure(options, scorer, files, name, effort, quality):
    """Returns one point per file: a dictionary with the members of METRICS, bpp and ms."""
    with tempfile.TemporaryDirectory(prefix="gpuimgd-bench-") as decoded:
        lines = subprocess.run(
            [f"{options.build}/tests/bench/bench_formats", "--each", "--rounds", "1", "--format",
             name, "--effort", str(effort), "--quality", str(quality), "--decoded", decoded,
             *files], check=True, stdout=subprocess.PIPE).stdout.splitlines()
        points = []
        for number, line in enumerate(lines):
            one = json.loads(line)
            point = {"bpp": 8 * one["bytes"] / one["pixels"], "psnr_y": one["psnr_y"],
                     "ssim": -10 * math.log10(max(1e-9, 1 - one["ssim"])),
                     "ms": 1e9 * one["encode_s"] / one["pixels"]}
            if scorer.process and number < options.scored:
                point["ssimulacra2"] = scorer.score(files[number], f"{decoded}/{number}.ppm")
            points.append(point)
    return points


def measure_set(options, scorer, files):
    """Returns the curves of each contestant: for each file, a list of points by quality."""
    contestants = [(f"effort {effort}", "avif", effort, options.qualities)
                   for effort in options.efforts]
    contestants.append((WEBP, "webp", WEBP_EFFORT, WEBP_QUALITIES))
    curves = {}
    for title, name, effort, qualities in contestants:
        by_quality = [measure(options, scorer, files, name, effort, quality)
                      for quality in qualities]
        curves[title] = [list(points) for points in zip(*by_quality)]
    return curves


# ---- BD rates ------------------------------------------------------------------------------------

class Curve:
    """The logarithm of the rate over a metric, as a monotone cubic (Fritsch and Butland, 1984)."""

    def __init__(self, points, metric):
        best = {}
        for point in points:
            best[round(point[metric], 6)] = math.log(point["bpp"])
        self.x = sorted(best)
        self.y = [best[x] for x in self.x]
        if len(self.x) < 3:
            return
        steps = [b - a for a, b in zip(self.x, self.x[1:])]
        slopes = [(b - a) / step for a, b, step in zip(self.y, self.y[1:], steps)]
        inner = [0 if left * right <= 0 else
                 3 * (wide + wider) / ((2 * wider + wide) / left + (wider + 2 * wide) / right)
                 for left, right, wide, wider in zip(slopes, slopes[1:], steps, steps[1:])]
        self.slopes = [slopes[0], *inner, slopes[-1]]

    def at(self, x):
        index = max(i for i in range(len(self.x) - 1) if self.x[i] <= x or i == 0)
        step = self.x[index + 1] - self.x[index]
        t = (x - self.x[index]) / step
        return ((1 + 2 * t) * (1 - t) ** 2 * self.y[index] +
                t * (1 - t) ** 2 * step * self.slopes[index] +
                t * t * (3 - 2 * t) * self.y[index + 1] +
                t * t * (t - 1) * step * self.slopes[index + 1])


def bd_rate(anchor, points, metric):
    """Returns the BD rate in percent, or None if the curves have too little in common."""
    a, b = Curve(anchor, metric), Curve(points, metric)
    if len(a.x) < 3 or len(b.x) < 3:
        return None
    low, high, count = max(a.x[0], b.x[0]), min(a.x[-1], b.x[-1]), 100
    if high - low < 0.1 * (a.x[-1] - a.x[0]):
        return None
    places = [low + (high - low) * i / count for i in range(count + 1)]
    return 100 * math.expm1(statistics.mean(b.at(x) - a.at(x) for x in places))


def rates_of(curves, title, metric):
    rates = [bd_rate(anchor, points, metric)
             for anchor, points in zip(curves[ANCHOR], curves[title])
             if metric in anchor[0] and metric in points[0]]
    return [rate for rate in rates if rate is not None]


def print_set(name, curves, scored):
    count = len(curves[ANCHOR])
    metrics = [metric for metric in METRICS if metric != "ssimulacra2" or scored]
    print(f"\n| {name}, {count} images: BD rate | " +
          " | ".join(f"{METRICS[metric]}, mean (median; worst)" for metric in metrics) +
          " | ms per MP |")
    print("| --- |" + " --- |" * (len(metrics) + 1))
    for title, images in curves.items():
        cells = []
        for metric in metrics:
            rates = rates_of(curves, title, metric)
            cells.append(f"{statistics.mean(rates):+.1f} ({statistics.median(rates):+.1f}; "
                         f"{max(rates):+.1f})" if rates else "-")
        ms = statistics.mean(point["ms"] for points in images for point in points)
        print(f"| {title} | " + " | ".join(cells) + f" | {ms:.0f} |", flush=True)


# ---- the drawing ---------------------------------------------------------------------------------

WIDTH, HEIGHT, GAP, LEFT, TOP = 400, 300, 70, 60, 70


def mean_points(images, metric):
    """Returns bits per pixel and the metric, means over the images, by quality."""
    return [(statistics.mean(point["bpp"] for point in points),
             statistics.mean(point[metric] for point in points)) for points in zip(*images)]


def color_of(title):
    return WEBP_COLOR if title == WEBP else COLORS[int(title.split()[-1])]


def draw_panel(drawing, left, top, name, lines):
    low = min(x for points in lines.values() for x, _ in points)
    high = max(x for points in lines.values() for x, _ in points)
    least = min(y for points in lines.values() for _, y in points)
    most = max(y for points in lines.values() for _, y in points)

    def place(x, y):
        return (left + WIDTH * math.log(x / low) / math.log(high / low),
                top + HEIGHT * (1 - (y - least) / (most - least)))

    drawing.text(left, top - 12, name, "head")
    for part in range(5):
        x, y = left + WIDTH * part / 4, top + HEIGHT * part / 4
        drawing.line([(x, top), (x, top + HEIGHT)], "grid")
        drawing.line([(left, y), (left + WIDTH, y)], "grid")
        drawing.text(x, top + HEIGHT + 16, f"{low * (high / low) ** (part / 4):.2g}", "small",
                     "middle")
        drawing.text(left - 6, y + 4, f"{most - (most - least) * part / 4:.1f}", "small", "end")
    for title, points in lines.items():
        drawing.line([place(*point) for point in points], "curve", color_of(title))
        for x, y in points:
            drawing.dot(*place(x, y), color_of(title), f"{title}: {x:.3f} bits per pixel, {y:.2f}")


def draw(path, sets):
    drawing = chart.Drawing(TOP + len(sets) * (HEIGHT + GAP) + 10, LEFT + 2 * (WIDTH + GAP))
    drawing.text(LEFT, 28, "AVIF and WebP: quality of luma over bits per pixel, means", "title")
    for row, (name, curves) in enumerate(sets.items()):
        for column, metric in enumerate(("psnr_y", "ssim")):
            title = f"{name}: {METRICS[metric]}, dB"
            draw_panel(drawing, LEFT + column * (WIDTH + GAP), TOP + row * (HEIGHT + GAP), title,
                       {title: mean_points(images, metric) for title, images in curves.items()})
    y = TOP + len(sets) * (HEIGHT + GAP) - 20
    for index, title in enumerate(next(iter(sets.values()))):
        drawing.dot(LEFT + 6 + 85 * index, y - 4, color_of(title))
        drawing.text(LEFT + 16 + 85 * index, y, title)
    drawing.save(path)


def numbers(text):
    return [int(word) for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--photos", type=int, default=24)
    parser.add_argument("--widths", type=numbers, default=[640, 1200])
    parser.add_argument("--screens", type=int, default=4)
    parser.add_argument("--efforts", type=numbers, default=list(range(7)))
    parser.add_argument("--qualities", type=numbers, default=[10, 25, 40, 55, 70, 85])
    parser.add_argument("--scored", type=int, default=4)
    parser.add_argument("--json")
    parser.add_argument("--svg")
    options = parser.parse_args()
    if 0 not in options.efforts:
        parser.error("--efforts must have 0, with which the others are compared")
    sets, scorer = collections.OrderedDict(), Scorer(options.build)
    if not scorer.process:
        print("there is no Python package ssimulacra2 here: SSIMULACRA2 is left out")
    with tempfile.TemporaryDirectory(prefix="gpuimgd-bench-") as folder:
        images = {f"photographs, {width} wide":
                  make_photos(options.folder, folder, width, options.photos)
                  for width in options.widths}
        images["screenshots"] = make_screens(folder, options.screens)
        for name, files in images.items():
            if files:
                sets[name] = measure_set(options, scorer, files)
                print_set(name, sets[name], scorer.process and options.scored > 0)
    scorer.end()
    if not any(name.startswith("photo") for name in sets) and options.widths:
        raise SystemExit(f"there are no photographs of {min(options.widths)} pixels or wider in "
                         f"{options.folder}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(sets, file)
    if options.svg:
        draw(options.svg, sets)


main()
