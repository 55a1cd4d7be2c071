#!/usr/bin/python3
"""Compares equalize and otsu with OpenCV: check_values.py PATH-OF-APPLY. Prints TAP."""
import sys

import cv2
import numpy

import peer

SIZES = [(1, 1), (1, 9), (9, 1), (2, 2), (40, 3), (31, 33), (129, 70), (300, 201), (513, 47)]


def pictures(width, height, channels):
    """Noise, one value, two values, a ramp, a narrow range."""
    noise = peer.picture(width, height, channels)
    ramp = numpy.arange(noise.size, dtype=numpy.uint32).reshape(noise.shape) * 256 // noise.size
    return [noise, numpy.full_like(noise, 77), 90 + noise % 2, ramp.astype(numpy.uint8),
            100 + noise // 8]


def main():
    report = peer.Report(sys.argv[1])
    for size in SIZES:
        for channels in (1, 3):
            for image in pictures(*size, channels):
                gray = peer.gray(image)
                report.check(image, ["equalize"], cv2.equalizeHist(gray), "OpenCV")
                kind = cv2.THRESH_BINARY | cv2.THRESH_OTSU
                report.check(image, ["otsu"], cv2.threshold(gray, 0, 255, kind)[1], "OpenCV")
    return report.end()


sys.exit(main())
