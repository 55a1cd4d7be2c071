#!/usr/bin/python3
"""Compares grayscale, invert and threshold with Pillow and OpenCV, and sobel by its definition with
OpenCV's derivatives, byte for byte: check_points.py PATH-OF-APPLY. Prints TAP."""
import math
import sys

import cv2
import numpy
from PIL import ImageOps

import peer

SIZES = [(1, 1), (1, 9), (9, 1), (2, 2), (40, 3), (31, 33), (129, 70), (300, 201), (513, 47)]
BORDERS = {"reflect101": cv2.BORDER_REFLECT_101, "replicate": cv2.BORDER_REPLICATE,
           "zero": cv2.BORDER_REPLICATE}


def edges(gray, magnitude, border):
    across, down = (numpy.abs(cv2.Sobel(gray, cv2.CV_16S, *order, ksize=3,
                                        borderType=BORDERS[border]).astype(numpy.int64))
                    for order in ((1, 0), (0, 1)))
    if magnitude == "l2":
        length = numpy.vectorize(math.isqrt)(across * across + down * down)
    else:
        length = (across + down) >> (magnitude == "half")
    out = numpy.minimum(length, 255).astype(numpy.uint8)
    if border == "zero":
        out[[0, -1], :] = 0
        out[:, [0, -1]] = 0
    return out


def main():
    report = peer.Report(sys.argv[1])
    for size in SIZES:
        for channels in (1, 3):
            image = peer.picture(*size, channels)
            gray = peer.gray(image)
            report.check(image, ["grayscale"], gray, "Pillow")
            report.check(image, ["invert"], ImageOps.invert(peer.pillow(image)), "Pillow")
            for value in (0, 1, 127, 254, 255):
                for invert, kind in ((False, cv2.THRESH_BINARY), (True, cv2.THRESH_BINARY_INV)):
                    report.check(image, [{"op": "threshold", "value": value, "invert": invert}],
                                 cv2.threshold(gray, value, 255, kind)[1], "OpenCV")
            for magnitude in ("half", "l1", "l2"):
                for border in BORDERS:
                    report.check(image, [{"op": "sobel", "magnitude": magnitude,
                                          "border": border}], edges(gray, magnitude, border),
                                 "OpenCV")
    return report.end()


sys.exit(main())
