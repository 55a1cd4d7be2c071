#!/usr/bin/python3
"""Compares canny with OpenCV's Canny (aperture 3, L1 norm): check_canny.py PATH-OF-APPLY.
Prints TAP."""
import sys

import cv2
import numpy

import peer
from peer import RANDOM

SIZES = [(1, 1), (1, 9), (9, 1), (2, 2), (3, 3), (40, 3), (16, 16), (31, 33), (33, 32), (127, 31),
         (128, 32), (129, 33), (255, 64), (257, 65), (300, 201), (1, 300), (700, 1), (513, 47)]
THRESHOLDS = [(50, 150), (0, 0), (0, 1530), (20, 20), (99.9, 200.5), (300, 700), (1530, 1530)]


def noise(width, height):
    return peer.picture(width, height, 1)[:, :, 0]


def blurred(width, height):
    return cv2.GaussianBlur(noise(width, height), (9, 9), 2.5)


def bits(width, height):
    """Gradients of few magnitudes and directions, which give many ties."""
    return (RANDOM.integers(0, 2, (height, width)) * 255).astype(numpy.uint8)


def hills(width, height):
    small = RANDOM.integers(0, 256, (height // 8 + 1, width // 8 + 1), dtype=numpy.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def shapes(width, height):
    """Circles and lines give long edges in every direction."""
    image = numpy.full((height, width), 90, numpy.uint8)
    for _ in range(12):
        centre = tuple(int(v) for v in RANDOM.integers(0, (width, height)))
        to = tuple(int(v) for v in RANDOM.integers(0, (width, height)))
        shade = int(RANDOM.integers(0, 256))
        cv2.circle(image, centre, int(RANDOM.integers(1, 60)), shade, 2)
        cv2.line(image, centre, to, shade, int(RANDOM.integers(1, 5)))
    return image


def spiral(width, height):
    """A weak line with a strong end, from which hysteresis must follow it."""
    image = numpy.full((height, width), 100, numpy.uint8)
    corners, inset = [], 4
    while 2 * inset + 12 < min(width, height):
        corners += [(inset, inset), (width - inset, inset), (width - inset, height - inset),
                    (inset, height - inset)]
        inset += 8
    for start, end in zip(corners, corners[1:]):
        cv2.line(image, start, end, 130, 3)
    if corners:
        cv2.circle(image, corners[-1], 3, 255, -1)
    return image


def main():
    report = peer.Report(sys.argv[1])
    turn = 0
    for size in SIZES:
        for draw in (noise, blurred, bits, hills, shapes, spiral):
            for _ in range(3):
                low, high = THRESHOLDS[turn % len(THRESHOLDS)] if turn % 2 else \
                    sorted(float(v) for v in RANDOM.uniform(0, 500, 2))
                turn += 1
                image = numpy.ascontiguousarray(draw(*size))
                report.check(image[:, :, None], [{"op": "canny", "low": low, "high": high}],
                             cv2.Canny(image, low, high), f"{draw.__name__}, OpenCV")
        colour = peer.picture(*size, 3)
        report.check(colour, ["canny"], cv2.Canny(peer.gray(colour), 50, 150), "Pillow and OpenCV")
    return report.end()


sys.exit(main())
