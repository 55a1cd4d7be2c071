#!/usr/bin/python3
"""Compares transpose, rotate, flip, crop, pad and contain with OpenCV and Pillow, byte for byte:
check_geometry.py PATH-OF-APPLY. Prints TAP."""
import sys

import cv2
from PIL import Image, ImageOps

import peer

SIZES = [(1, 1), (1, 9), (9, 1), (40, 3), (31, 33), (129, 70), (300, 201), (515, 64)]
CV_TURNS = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}
PIL_TURNS = {90: Image.ROTATE_90, 180: Image.ROTATE_180, 270: Image.ROTATE_270}

ANGLES = [0.001, 7, 45, 90, 133.7, 180.5, 269.99, 270, 300, 359.5, -33, -90, 12.25]
RED, TRANSPARENT = [200, 30, 10, 255], [0, 0, 0, 0]
COLORS = [[200, 30, 10], [77, 77, 77], "transparent", [1, 2, 3, 0]]


def crops(report, image):
    height, width = image.shape[:2]
    for _ in range(3):
        across, down = (int(peer.RANDOM.integers(1, side + 1)) for side in (width, height))
        x, y = (int(peer.RANDOM.integers(0, room + 1)) for room in (width - across, height - down))
        report.check(image, [{"op": "crop", "x": x, "y": y, "width": across, "height": down}],
                     peer.pillow(image).crop((x, y, x + across, y + down)))


def color_of(image, *rgba):
    """The colour as Pillow wants it for an image of this mode."""
    return rgba[0] if image.mode == "L" else rgba[:len(image.getbands())]


def converted(image, color):
    """The image in the mode that the colour makes of it."""
    if image.mode == "RGBA" or color[3] < 255:
        return image.convert("RGBA")
    return image if image.mode == "L" and len(set(color[:3])) == 1 else image.convert("RGB")


def resized(image, size):
    if image.mode == "RGBA":
        return image.convert("RGBa").resize(size, Image.LANCZOS).convert("RGBA")
    return image.resize(size, Image.LANCZOS)


def rotations(report, image, angles):
    whole = peer.pillow(image)
    for i, angle in enumerate(angles):
        expand, clockwise, color = i % 3 != 2, i % 2 == 0, COLORS[i % len(COLORS)]
        op = {"op": "rotate", "angle": angle, "expand": expand, "background": color}
        if not clockwise:
            op["clockwise"] = False
        color = TRANSPARENT if color == "transparent" else (color + [255])[:4]
        moves = angle % (90 if expand or whole.width == whole.height else 180) == 0
        want = whole if moves else converted(whole, color)
        want = want.rotate(-angle if clockwise else angle, Image.BICUBIC, expand,
                           fillcolor=color_of(want, *color))
        report.check(image, [op], want, "Pillow")


def pads(report, image):
    whole = peer.pillow(image)
    for color in COLORS:
        rgba = TRANSPARENT if color == "transparent" else (color + [255])[:4]
        want = converted(whole, rgba)
        sides = [int(side) for side in peer.RANDOM.integers(0, 40, 4)]
        op = {"op": "pad", **dict(zip(("left", "top", "right", "bottom"), sides)), "color": color}
        report.check(image, [op], ImageOps.expand(want, tuple(sides), color_of(want, *rgba)),
                     "Pillow")


def contains(report, image):
    whole = peer.pillow(image)
    width, height = whole.size
    for across, down in ((64, 64), (200, 31), (17, 90)):
        by_width = across * height <= down * width
        inner = (across if by_width else max(1, (2 * width * down + height) // (2 * height)),
                 max(1, (2 * height * across + width) // (2 * width)) if by_width else down)
        color = [RED[0]] * 3 if whole.mode == "L" else RED
        want = Image.new(whole.mode, (across, down), color_of(whole, *color))
        want.paste(resized(whole, inner), ((across - inner[0]) // 2, (down - inner[1]) // 2))
        report.check(image, [{"op": "resize", "width": across, "height": down, "fit": "contain",
                              "color": color}], want, "Pillow")


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
            pads(report, image)
            contains(report, image)
            rotations(report, image, ANGLES)
    return report.end()


sys.exit(main())
