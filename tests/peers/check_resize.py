#!/usr/bin/python3
"""resize against Pillow's Image.resize, byte for byte: check_resize.py PATH-OF-APPLY. Prints TAP.

Pillow 12.2 and 12.3 resize the columns of very high images first. Other versions have another rule,
and are asked for each axis alone."""
import math
import sys

import numpy
import PIL
from PIL import Image, ImageOps

import peer

FILTERS = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR,
           "bicubic": Image.BICUBIC, "lanczos3": Image.LANCZOS}
SIZES = [((1, 1), (1, 1)), ((1, 1), (9, 5)), ((640, 427), (100, 67)), ((640, 427), (1, 1)),
         ((97, 61), (97, 30)), ((97, 61), (41, 61)), ((97, 61), (200, 61)), ((97, 61), (97, 150)),
         ((33, 47), (1000, 701)), ((1, 300), (5, 17)), ((300, 1), (17, 5)), ((501, 333), (500, 332)),
         ((255, 257), (128, 129)), ((3000, 7), (2, 3)), ((7, 3000), (3, 2)), ((64, 64), (64, 64))]


VERSION = tuple(int(part) for part in PIL.__version__.split(".")[:2])
HIGH = [((2, 500), (300, 5)), ((3, 301), (70, 300)), ((3, 301), (70, 301)), ((3, 301), (70, 302)),
        ((3, 300), (70, 5)), ((1, 16000), (32, 32)), ((5, 3000), (1, 1)), ((9, 950), (2, 300))]


def axes(image, target, kind):
    """Resizes one axis after the other, columns first if the image is very high."""
    if image.size == target:
        return image.copy()
    if image.mode == "RGBA":
        return axes(image.convert("RGBa"), target, kind).convert("RGBA")
    width, height = image.size
    columns_first = height > width * 100 and target[1] < height
    middle = (width, target[1]) if columns_first else (target[0], height)
    return image.resize(middle, kind).resize(target, kind)


def resized(image, target, kind):
    """Pillow's result, by its own rule if that is ours."""
    has_rule = (12, 2) <= VERSION < (13, 0)
    is_high = image.size[1] > image.size[0] * 100
    if kind == Image.NEAREST or has_rule or (VERSION < (13, 0) and not is_high):
        return image.resize(target, kind)
    return axes(image, target, kind)


def cover_box(size, target):
    """Returns the box at the centre of `size` with the ratio of `target`."""
    (w, h), (tw, th) = size, target
    across, down = w, h
    if w * th > h * tw:
        across = max(1, (2 * h * tw + th) // (2 * th))
    else:
        down = max(1, (2 * w * th + tw) // (2 * tw))
    x, y = (w - across) // 2, (h - down) // 2
    return x, y, x + across, y + down


def check_focus(report):
    """ImageOps.fit cuts at fractions of a pixel, and its filter also reads pixels outside of the
    part. Here all parts are whole, and the box filter does not reach beyond them."""
    for size, target in (((90, 60), (30, 30)), ((60, 90), (20, 20)), ((64, 48), (16, 24))):
        image = peer.picture(*size, 3)
        left, top, right, bottom = cover_box(size, target)
        across, down = right - left, bottom - top
        for focus in ((0, 0), (0.3, 0.6), (0.5, 0.5), (0.7, 0.35), (1, 1)):
            place = [min(max(math.ceil(part * whole - length / 2 - 0.5), 0), whole - length)
                     for part, whole, length in zip(focus, size, (across, down))]
            centering = [start / (whole - length) if whole > length else 0.5
                         for start, whole, length in zip(place, size, (across, down))]
            op = {"op": "resize", "width": target[0], "height": target[1], "fit": "cover",
                  "focus": focus}
            report.check(image, [op | {"filter": "box"}],
                         ImageOps.fit(peer.pillow(image), target, Image.BOX, 0, centering),
                         f"Pillow's ImageOps.fit, centering {centering}")
            box = (*place, place[0] + across, place[1] + down)
            report.check(image, [op],
                         resized(peer.pillow(image).crop(box), target, Image.LANCZOS), "Pillow")


def edges(image):
    """Returns Sobel's (|Gx| + |Gy|) / 2 of the gray, with reflected borders."""
    gray = numpy.pad(numpy.array(image.convert("L"), dtype=int), 1, "reflect")
    smooth = gray[:-2] + 2 * gray[1:-1] + gray[2:]
    slope = gray[:-2] - gray[2:]
    across = abs(smooth[:, :-2] - smooth[:, 2:])
    down = abs(slope[:, :-2] + 2 * slope[:, 1:-1] + slope[:, 2:])
    return numpy.minimum((across + down) // 2, 255)


def check_attention(report):
    for size, target in (((301, 200), (100, 100)), ((200, 301), (100, 50)), ((97, 61), (120, 120))):
        image = peer.picture(*size, 3)
        image[:size[1] // 2, :size[0] // 2] = 120
        wide = size[0] * target[1] > size[1] * target[0]
        whole = ((2 * size[0] * target[1] + size[1]) // (2 * size[1]), target[1]) if wide else \
            (target[0], (2 * size[1] * target[0] + size[0]) // (2 * size[0]))
        large = resized(peer.pillow(image), whole, Image.LANCZOS)
        lines = edges(large).sum(axis=0 if wide else 1)
        room = len(lines) - target[0 if wide else 1]
        start = min(range(room + 1),
                    key=lambda s: (-lines[s:len(lines) - room + s].sum(), abs(2 * s - room), s))
        x, y = (start, 0) if wide else (0, start)
        report.check(image, [{"op": "resize", "width": target[0], "height": target[1],
                              "fit": "cover", "gravity": "attention"}],
                     large.crop((x, y, x + target[0], y + target[1])), "Pillow and NumPy")


def main():
    print(f"# Pillow {PIL.__version__}")
    report = peer.Report(sys.argv[1])
    for channels in (1, 3, 4):
        for size, target in SIZES + HIGH:
            image = peer.picture(*size, channels)
            whole = peer.pillow(image)
            for name, kind in FILTERS.items():
                op = {"op": "resize", "width": target[0], "height": target[1], "filter": name}
                report.check(image, [op | {"fit": "exact"}], resized(whole, target, kind), "Pillow")
                report.check(image, [op | {"fit": "cover"}],
                             resized(whole.crop(cover_box(size, target)), target, kind), "Pillow")
    check_focus(report)
    check_attention(report)
    # An image decoded at M/8, as in Pillow's draft mode: the box ends within its last pixel.
    for eighths in (1, 2, 4):
        full, target = (1003, 757), (40, 31)
        image = peer.picture(*(-(-side * eighths // 8) for side in full), 3)
        box = (0, 0, full[0] * eighths / 8, full[1] * eighths / 8)
        report.check(image, [{"op": "resize", "width": target[0], "height": target[1],
                              "fit": "exact"}],
                     peer.pillow(image).resize(target, Image.LANCZOS, box),
                     f"decoded at {eighths}/8", full, eighths)
    return report.end()


sys.exit(main())
