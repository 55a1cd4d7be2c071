#!/usr/bin/python3
"""Compares gaussian, unsharp, convolve and median with OpenCV, byte for byte:
check_neighbours.py PATH-OF-APPLY. Prints TAP."""
import sys

import cv2
import numpy

import peer
from peer import RANDOM, picture

SIZES = [(1, 1), (1, 9), (9, 1), (2, 2), (40, 3), (31, 33), (129, 70), (300, 201)]
SIGMAS = [0, 0.1, 0.3, 0.5, 0.8, 1, 1.1, 1.5, 2, 3, 5, 7.5, 10, 20, 100, 1000]
BORDERS = {"reflect101": cv2.BORDER_REFLECT_101, "replicate": cv2.BORDER_REPLICATE,
           "zero": cv2.BORDER_CONSTANT}


def check(report, image, op, function):
    """`function` applies OpenCV to the colours; alpha is copied."""
    want = image.copy()
    colours = numpy.ascontiguousarray(image[:, :, :3])
    want[:, :, :3] = function(colours).reshape(colours.shape)
    report.check(image, [op], want, "OpenCV")


def unsharp(image, ksize, sigma, amount):
    blurred = cv2.GaussianBlur(image, (ksize, ksize), sigma).reshape(image.shape).astype(int)
    amount256 = int(amount * 256 + 0.5)
    return numpy.clip(image + ((amount256 * (image - blurred) + 128) >> 8), 0, 255)


def main():
    report = peer.Report(sys.argv[1])
    turn = 0
    for ksize in range(3, 32, 2):
        for sigma in SIGMAS + [float(s) for s in RANDOM.uniform(0.05, 15, 8)]:
            image = picture(*SIZES[turn % len(SIZES)], (1, 3, 4)[turn % 3])
            turn += 1
            check(report, image, {"op": "gaussian", "ksize": ksize, "sigma": sigma},
                         lambda colours: cv2.GaussianBlur(colours, (ksize, ksize), sigma))
    for amount in (0, 0.4, 1, 1.7, 16):
        for channels in (1, 3, 4):
            check(report, picture(129, 70, channels),
                         {"op": "unsharp", "ksize": 7, "sigma": 1.3, "amount": amount},
                         lambda colours: unsharp(colours.astype(numpy.uint8), 7, 1.3, amount))
    for channels in (1, 3, 4):
        for size in SIZES:
            for ksize in (3, 5):
                check(report, picture(*size, channels), {"op": "median", "size": ksize},
                             lambda colours: cv2.medianBlur(colours, ksize))
            for border, theirs in BORDERS.items():
                sides = RANDOM.integers(0, 5, 2) * 2 + 1
                kernel = RANDOM.integers(-5, 6, sides) if sides.prod() <= 25 else \
                    RANDOM.integers(-1, 2, sides)
                check(report, picture(*size, channels),
                             {"op": "convolve", "kernel": kernel.tolist(), "scale": 1,
                              "offset": 20, "border": border},
                             lambda colours: cv2.filter2D(colours, -1, kernel.astype(numpy.float32),
                                                          delta=20, borderType=theirs))
    return report.end()


sys.exit(main())
