#!/usr/bin/python3
"""resize against Pillow's Image.resize, byte for byte: check_resize.py PATH-OF-APPLY. Prints TAP."""
import sys

from PIL import Image

import peer

FILTERS = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR,
           "bicubic": Image.BICUBIC, "lanczos3": Image.LANCZOS}
SIZES = [((1, 1), (1, 1)), ((1, 1), (9, 5)), ((640, 427), (100, 67)), ((640, 427), (1, 1)),
         ((97, 61), (97, 30)), ((97, 61), (41, 61)), ((97, 61), (200, 61)), ((97, 61), (97, 150)),
         ((33, 47), (1000, 701)), ((1, 300), (5, 17)), ((300, 1), (17, 5)), ((501, 333), (500, 332)),
         ((255, 257), (128, 129)), ((3000, 7), (2, 3)), ((7, 3000), (3, 2)), ((64, 64), (64, 64))]


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


def main():
    report = peer.Report(sys.argv[1])
    for channels in (1, 3, 4):
        for size, target in SIZES:
            image = peer.picture(*size, channels)
            whole = peer.pillow(image)
            for name, kind in FILTERS.items():
                op = {"op": "resize", "width": target[0], "height": target[1], "filter": name}
                report.check(image, [op | {"fit": "exact"}], whole.resize(target, kind), "Pillow")
                report.check(image, [op | {"fit": "cover"}],
                             whole.crop(cover_box(size, target)).resize(target, kind), "Pillow")
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
