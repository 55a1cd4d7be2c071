#!/usr/bin/python3
"""gaussian, unsharp, convolve and median against OpenCV, byte for byte:
check_neighbours.py PATH-OF-APPLY. Prints TAP."""
import json
import subprocess
import sys

import cv2
import numpy

RANDOM = numpy.random.default_rng(20)
SIZES = [(1, 1), (1, 9), (9, 1), (2, 2), (40, 3), (31, 33), (129, 70), (300, 201)]
SIGMAS = [0, 0.1, 0.3, 0.5, 0.8, 1, 1.1, 1.5, 2, 3, 5, 7.5, 10, 20, 100, 1000]
BORDERS = {"reflect101": cv2.BORDER_REFLECT_101, "replicate": cv2.BORDER_REPLICATE,
           "zero": cv2.BORDER_CONSTANT}


def picture(width, height, channels):
    """Noise with flat stretches and full steps."""
    image = RANDOM.integers(0, 256, (height, width, channels), dtype=numpy.uint8)
    image[:, width // 3:width // 2] = 255
    image[height // 4:height // 3] = 0
    return image


def apply(tool, image, op):
    height, width, channels = image.shape
    out = subprocess.run([tool, str(width), str(height), str(channels), json.dumps([op])],
                         input=image.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    return numpy.frombuffer(out.split(b"\n", 1)[1], numpy.uint8).reshape(image.shape)


class Report:
    def __init__(self, tool):
        self.tool, self.count, self.failures = tool, 0, 0

    def check(self, image, op, function):
        """function: what OpenCV makes of the colours; alpha stays."""
        want = image.copy()
        colours = numpy.ascontiguousarray(image[:, :, :3])
        want[:, :, :3] = function(colours).reshape(colours.shape)
        same = (apply(self.tool, image, op) == want).all()
        self.count += 1
        self.failures += not same
        print(f"{'ok' if same else 'not ok'} {self.count} - {image.shape} {json.dumps(op)[:120]}")


def unsharp(image, ksize, sigma, amount):
    blurred = cv2.GaussianBlur(image, (ksize, ksize), sigma).reshape(image.shape).astype(int)
    amount256 = int(amount * 256 + 0.5)
    return numpy.clip(image + ((amount256 * (image - blurred) + 128) >> 8), 0, 255)


def main():
    report = Report(sys.argv[1])
    turn = 0
    for ksize in range(3, 32, 2):
        for sigma in SIGMAS + [float(s) for s in RANDOM.uniform(0.05, 15, 8)]:
            image = picture(*SIZES[turn % len(SIZES)], (1, 3, 4)[turn % 3])
            turn += 1
            report.check(image, {"op": "gaussian", "ksize": ksize, "sigma": sigma},
                         lambda colours: cv2.GaussianBlur(colours, (ksize, ksize), sigma))
    for amount in (0, 0.4, 1, 1.7, 16):
        for channels in (1, 3, 4):
            report.check(picture(129, 70, channels),
                         {"op": "unsharp", "ksize": 7, "sigma": 1.3, "amount": amount},
                         lambda colours: unsharp(colours.astype(numpy.uint8), 7, 1.3, amount))
    for channels in (1, 3, 4):
        for size in SIZES:
            for ksize in (3, 5):
                report.check(picture(*size, channels), {"op": "median", "size": ksize},
                             lambda colours: cv2.medianBlur(colours, ksize))
            for border, theirs in BORDERS.items():
                sides = RANDOM.integers(0, 5, 2) * 2 + 1
                kernel = RANDOM.integers(-5, 6, sides) if sides.prod() <= 25 else \
                    RANDOM.integers(-1, 2, sides)
                report.check(picture(*size, channels),
                             {"op": "convolve", "kernel": kernel.tolist(), "scale": 1,
                              "offset": 20, "border": border},
                             lambda colours: cv2.filter2D(colours, -1, kernel.astype(numpy.float32),
                                                          delta=20, borderType=theirs))
    print(f"1..{report.count}")
    return report.failures > 0


sys.exit(main())
