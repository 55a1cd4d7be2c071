#!/usr/bin/python3
"""Compares transpose, rotate, flip and crop with OpenCV and Pillow, byte for byte:
check_geometry.py PATH-OF-APPLY. Prints TAP."""
import sys

import cv2
from PIL import Image

import peer

SIZES = [(1, 1), (1, 9), (9, 1), (40, 3), (31, 33), (129, 70), (300, 201), (515, 64)]
CV_TURNS = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}
PIL_TURNS = {90: Image.ROTATE_90, 180: Image.ROTATE_180, 270: Image.ROTATE_270}


def crops(report, image):
    height, width = image.shape[:2]
    for _ in range(3):
        across, down = (int(peer.RANDOM.integers(1, side + 1)) for side in (width, height))
        x, y = (int(peer.RANDOM.integers(0, room + 1)) for room in (width - across, height - down))
        report.check(image, [{"op": "crop", "x": x, "y": y, "width": across, "height": down}],
                     peer.pillow(image).crop((x, y, x + across, y + down)))


def main():
    report = peer.Report(sys.argv[1])
    for size in SIZES:
        for channels in (1, 3, 4):
            image = peer.picture(*size, channels)
            whole = peer.pillow(image)
            report.check(image, ["transpose"], cv2.transpose(image), "OpenCV")
            report.check(image, ["transpose"], whole.transpose(Image.TRANSPOSE), "Pillow")
            for angle in (90, 180, 270):
                report.check(image, [{"op": "rotate", "angle": angle}],
                             cv2.rotate(image, CV_TURNS[angle]), "OpenCV")
                report.check(image, [{"op": "rotate", "angle": angle, "clockwise": False}],
                             whole.transpose(PIL_TURNS[angle]), "Pillow")
            for axis, code, method in (("horizontal", 1, Image.FLIP_LEFT_RIGHT),
                                       ("vertical", 0, Image.FLIP_TOP_BOTTOM)):
                op = [{"op": "flip", "axis": axis}]
                report.check(image, op, cv2.flip(image, code), "OpenCV")
                report.check(image, op, whole.transpose(method), "Pillow")
            crops(report, image)
    return report.end()


sys.exit(main())
