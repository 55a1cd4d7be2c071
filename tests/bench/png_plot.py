#!/usr/bin/python3
"""Draws the curves of bench_png as an SVG: png_plot.py FILE < points

Each point is a line "set, filter, strategy, level, ms per megapixel, bytes per pixel" with tabs.
"""
import collections
import sys

import chart

COLORS = {"none": "#6b7785", "sub": "#2b6fc2", "up": "#18804b", "avg": "#b08800",
          "paeth": "#7c4dcb", "all": "#c2366b"}
MS_MAX, BYTES = 160, ((1.4, 2.2), (0.64, 0.8))  # points beyond an axis are drawn at its end
WIDTH, HEIGHT, TOP = 460, 340, 70


def draw_set(drawing, left, name, low, high, points):
    def place(ms, size):
        share = min(max((size - low) / (high - low), 0), 1)
        return left + WIDTH * min(ms / MS_MAX, 1), TOP + HEIGHT * (1 - share)

    drawing.text(left, TOP - 14, name, "head")
    for part in range(9):
        x, y = left + WIDTH * part / 8, TOP + HEIGHT * part / 8
        drawing.line([(x, TOP), (x, TOP + HEIGHT)], "grid")
        drawing.line([(left, y), (left + WIDTH, y)], "grid")
        drawing.text(x, TOP + HEIGHT + 16, f"{MS_MAX * part / 8:g}", "small", "middle")
        drawing.text(left - 6, y + 4, f"{high - (high - low) * part / 8:.3g}", "small", "end")
    for key, color in COLORS.items():
        # The line has the strategies that libpng chooses.
        line = points[key, "default" if key == "none" else "filtered"]
        runs = points[key, "rle"]["1"]
        levels = [level for level in line if level != "0"]
        drawing.line([place(*line[level]) for level in levels], "curve", color)
        for level in levels:
            drawing.dot(*place(*line[level]), color, note(f"{key}, level {level}", line[level]))
        drawing.square(*place(*runs), color, note(f"{key}, runs alone", runs))
        if key == "paeth":
            drawing.ring(*place(*runs), color)


def note(name, point):
    return f"{name}: {point[0]:.1f} ms per megapixel, {point[1]:.3f} bytes per pixel"


def main():
    sets = collections.defaultdict(lambda: collections.defaultdict(dict))
    for line in sys.stdin:
        name, key, strategy, level, ms, size = line.rstrip("\n").split("\t")
        sets[name][key, strategy][level] = float(ms), float(size)
    drawing = chart.Drawing(480, 1070)
    drawing.text(60, 26, "PNG: bytes per pixel over ms of CPU per megapixel", "title")
    for index, (name, points) in enumerate(sets.items()):
        draw_set(drawing, 60 + index * (WIDTH + 70), name, *BYTES[index], points)
    for index, (key, color) in enumerate(COLORS.items()):
        drawing.dot(66 + 80 * index, 456, color)
        drawing.text(76 + 80 * index, 460, key)
    drawing.text(560, 460, "lines: zlib's levels 1 to 9, from left to right; squares: runs alone; "
                 "ring: the default", "small")
    drawing.save(sys.argv[1])


main()
