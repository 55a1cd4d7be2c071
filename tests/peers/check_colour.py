#!/usr/bin/python3
"""Compares to_srgb with Pillow's ImageCms, which is lcms2: a byte may differ by 1.
check_colour.py PATH-OF-APPLY. Prints TAP. Uses the profiles that are installed."""
import io
import pathlib
import sys

import numpy
from PIL import ImageCms

import peer

FOLDER = pathlib.Path("/usr/share/color/icc")
# Flags of lcms2. Its optimization interpolates gray between 33 points, and is off by up to 10 in the
# shadows of linear gray.
BLACK_POINT, NO_OPTIMIZATION = 0x2000, 0x100
SIZES = [(1, 1), (33, 31), (300, 201)]


def profiles():
    """Yields the files whose profiles are for RGB or gray and can be an input."""
    for path in sorted(FOLDER.rglob("*.ic[cm]")):
        data = path.read_bytes()
        if data[12:16] in (b"mntr", b"scnr", b"prtr", b"spac") and data[16:20] in (b"RGB ", b"GRAY"):
            yield path, 3 if data[16:20] == b"RGB " else 1


def main():
    report = peer.Report(sys.argv[1])
    srgb = ImageCms.createProfile("sRGB")
    for path, channels in profiles():
        mode = "RGB" if channels == 3 else "L"
        profile = ImageCms.ImageCmsProfile(io.BytesIO(path.read_bytes()))
        change = ImageCms.buildTransform(
            profile, srgb, mode, "RGB", renderingIntent=ImageCms.Intent.RELATIVE_COLORIMETRIC,
            flags=BLACK_POINT | (NO_OPTIMIZATION if channels == 1 else 0))
        for size in SIZES:
            image = peer.picture(*size, channels)
            want = numpy.array(ImageCms.applyTransform(peer.pillow(image), change), dtype=int)
            got, _ = peer.run(report.tool, image, ["to_srgb"], size, 8, path)
            far = numpy.abs(got.astype(int) - want[:, :, :got.shape[2]]).max()
            report.say(far <= 1, f"{path.name} {image.shape}: {far} from lcms2")
    return report.end()


sys.exit(main())
