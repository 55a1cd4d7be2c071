#!/usr/bin/python3
"""PNGs of the daemon in other readers, and PNGs of others in ours: check_png.py PATH-OF-APPLY
[FOLDER...]. Prints TAP.

The daemon writes images of all kinds, sizes and levels, with and without metadata. Pillow must read
each without a warning, pngcheck without a complaint, and Chromium must decode it; all must have the
source's pixels. Chromium's canvas keeps exact colours only where alpha is 255 and there is no
profile. png_corpus reads files that Pillow writes, and those of the folders; Pillow, or OpenCV for
samples of 16 bits, must read the same pixels.
"""
import base64
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
import zlib

import cv2
import numpy
from PIL import Image, ImageCms, PngImagePlugin

import peer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "bench"), os.path.join(HERE, "..", "page")]
import browser  # noqa: E402
import rig  # noqa: E402

SIZES = [(1, 1), (1, 77), (77, 1), (3, 5), (64, 48), (211, 101)]
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
KEPT = ["icc", "exif", "xmp", "density"]
XMP = "<x:xmpmeta xmlns:x='adobe:ns:meta/'/>"
# Decodes a file (base64) and returns the RGBA bytes of a canvas (base64).
DECODE = """(async () => {
  const bytes = Uint8Array.from(atob('%s'), c => c.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'}));
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext('2d', {willReadFrequently: true});
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, image.width, image.height).data;
  let text = '';
  for (let at = 0; at < data.length; at += 32768)
    text += String.fromCharCode(...data.subarray(at, at + 32768));
  return btoa(text);
})()"""


# ---- the daemon's files ------------------------------------------------------------------------

def smooth(width, height, channels):
    """Like a photograph: waves with a little noise."""
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [128 + 90 * numpy.sin(x / (9 + 4 * c) + y / 17) + peer.RANDOM.normal(size=y.shape) * 3
              for c in range(channels)]
    return numpy.clip(numpy.stack(planes, axis=-1), 0, 255).astype(numpy.uint8)


def flat(width, height, channels):
    return numpy.full((height, width, channels), 77, numpy.uint8)


def noise(width, height, channels):
    return peer.RANDOM.integers(0, 256, (height, width, channels), dtype=numpy.uint8)


def opaque(width, height, channels):
    image = smooth(width, height, channels)
    image[:, :, 3:] = 255
    return image


def few(width, height, channels):
    """At most 256 colours, which become a palette."""
    return smooth(width, height, channels) // 64 * 85


def sources():
    """Yields the name, the image, whether it has metadata, and the level."""
    kinds = [smooth, flat, noise, opaque, few, peer.picture]
    for level in range(10):
        for number, kind in enumerate(kinds):
            for channels in (1, 3, 4):
                # Each level has all sizes and, with each kind, one of them.
                size = SIZES[(level + number + channels) % len(SIZES)]
                if size[0] * size[1] < 12 and kind is peer.picture:
                    size = SIZES[-1]
                marked = (level + number) % 3 == 0
                name = f"{kind.__name__}-{size[0]}x{size[1]}-{channels}-{level}{'-m' * marked}.png"
                yield name, kind(*size, channels), marked, level


def save(image, path, marked):
    """Writes an input."""
    kept = {}
    if marked:
        text = PngImagePlugin.PngInfo()
        text.add_itxt("XML:com.adobe.xmp", XMP)
        exif = Image.Exif()
        exif[0x010E] = "a description"
        kept = {"pnginfo": text, "exif": exif, "dpi": (300, 300),
                "icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()}
    peer.pillow(image).save(path, compress_level=1, **kept)


def write_all(daemon, folder):
    """Returns (name, source, marked) of each file; they are in folder/out."""
    written, jobs = [], []
    os.mkdir(f"{folder}/in")
    for name, image, marked, level in sources():
        save(image, f"{folder}/in/{name}", marked)
        keeps = {"metadata": KEPT} if marked else {}
        if name.startswith("few"):
            keeps["colors"] = 256
        jobs.append(json.dumps({"input": name,
                                "output": {"path": name, "compression": level, **keeps}}))
        written.append((name, image, marked))
    machine = rig.Rig(daemon, f"{folder}/in")
    try:
        machine.run(jobs)
        shutil.copytree(machine.out, f"{folder}/out")
    finally:
        machine.close()
    return written


# ---- readers -----------------------------------------------------------------------------------

def by_pillow(path, image, marked):
    """Returns what is wrong, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return open_with_pillow(path, image, marked)


def open_with_pillow(path, image, marked):
    with Image.open(path) as file:
        file.verify()
    with Image.open(path) as file:
        file.load()
        pixels = numpy.array(file.convert(MODES[image.shape[2]])).reshape(image.shape)
        kept = file.getexif().get(0x010E), file.info.get("XML:com.adobe.xmp"), \
            round(file.info.get("dpi", (0, 0))[0])
        if "icc_profile" in file.info:
            ImageCms.ImageCmsProfile(io.BytesIO(file.info["icc_profile"]))
        has_profile = "icc_profile" in file.info
    if kept != (("a description", XMP, 300) if marked else (None, None, 0)):
        return f"it has {kept}"
    if has_profile != (marked and image.shape[2] > 1):
        return "the profile"
    return None if (pixels == image).all() else "other pixels"


def by_pngcheck(path):
    """Returns what is wrong, or None."""
    run = subprocess.run(["pngcheck", "-q", path], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, check=False)
    return run.stdout.decode() or run.returncode or None


def by_chromium(page, path, image, marked):
    """Returns what is wrong, or None."""
    with open(path, "rb") as file:
        text = page.run(DECODE % base64.b64encode(file.read()).decode())
    height, width, channels = image.shape
    got = numpy.frombuffer(base64.b64decode(text), numpy.uint8).reshape(height, width, 4)
    want = numpy.full((height, width, 4), 255, numpy.uint8)
    want[:, :, :3] = image[:, :, :3] if channels >= 3 else image
    want[:, :, 3:] = image[:, :, 3:] if channels == 4 else 255
    solid = want[:, :, 3] == 255
    if (got[:, :, 3] != want[:, :, 3]).any():
        return "another alpha"
    return None if marked or (got[solid] == want[solid]).all() else "other pixels"


def check(report, written, folder, name, read):
    """Reads all files; a line names the reader and the first error."""
    for file, image, marked in written:
        try:
            wrong = read(f"{folder}/out/{file}", image, marked)
        except (OSError, SyntaxError, ValueError, AssertionError, Warning) as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            report.say(False, f"{name}: {file}: {wrong}")
            return
    report.say(True, f"{name} reads {len(written)} files of the daemon")


def check_writer(report, folder):
    daemon = os.path.join(os.path.dirname(report.tool), "..", "..", "gpuimgd")
    written = write_all(os.path.abspath(daemon), folder)
    check(report, written, folder, "Pillow", by_pillow)
    if shutil.which("pngcheck"):
        check(report, written, folder, "pngcheck", lambda path, *_: by_pngcheck(path))
    else:
        report.say(True, "pngcheck # SKIP there is no pngcheck")
    if not browser.find():
        report.say(True, "Chromium # SKIP there is no Chromium")
        return
    page = browser.Browser(folder)
    try:
        check(report, written, folder, "Chromium",
              lambda path, image, marked: by_chromium(page, path, image, marked))
        complaints = page.complaints()
        report.say(not complaints, f"Chromium warns of nothing {complaints}")
    finally:
        page.close()


# ---- others' files -----------------------------------------------------------------------------

def header(path):
    """Returns the bits per sample, the colour type and the data of tRNS or None."""
    with open(path, "rb") as file:
        data = file.read()
    at, key = 8, None
    while at + 12 <= len(data) and data[at + 4:at + 8] != b"IDAT":
        count = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"tRNS":
            key = data[at + 8:at + 8 + count]
        at += 12 + count
    return data[24], data[25], key


def key_sample(key, index, depth):
    """A sample of tRNS."""
    return int.from_bytes(key[2 * index:2 * index + 2], "big") & ((1 << depth) - 1)


def with_key(samples, wanted, most):
    """Adds alpha: 0 for pixels of the colour `wanted`, else `most`."""
    alpha = numpy.where((samples == wanted).all(axis=2), 0, most)
    colours = samples if samples.shape[2] == 3 else numpy.repeat(samples, 3, 2)
    return numpy.dstack([colours, alpha])


def deep_pixels(path, key):
    """Samples of 16 bits, rounded to 8."""
    samples = cv2.imread(path, cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION)
    if samples is None:
        return None
    samples = samples.reshape(*samples.shape[:2], -1).astype(numpy.int64)
    if samples.shape[2] >= 3:
        samples[:, :, :3] = samples[:, :, 2::-1].copy()
    if key is not None:
        wanted = [key_sample(key, i, 16) for i in range(len(key) // 2)]
        samples = with_key(samples[:, :, :len(wanted)], wanted, 65535)
    return (samples * 2 * 255 + 65535) // (2 * 65535)


def their_pixels(path):
    """The pixels as the codec defines them, or None if the file cannot be read."""
    depth, colour_type, key = header(path)
    if depth == 16:
        return deep_pixels(path, key)
    with Image.open(path) as file:
        file.load()
        if colour_type == 3:
            return numpy.array(file.convert("RGBA" if key is not None else "RGB"))
        if colour_type == 4:
            return numpy.array(file.convert("RGBA"))
        pixels = numpy.array(file).astype(numpy.int64)
    pixels = pixels.reshape(*pixels.shape[:2], -1) * (255 if pixels.max(initial=0) <= 1 and
                                                      depth == 1 else 1)
    if key is None:
        return pixels
    # Only the low bits of the key count.
    return with_key(pixels, [key_sample(key, i, depth) * 255 // ((1 << depth) - 1)
                             for i in range(len(key) // 2)], 255)


def describe(path):
    """The line of png_corpus for the pixels of Pillow."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels = their_pixels(path)
    except (OSError, SyntaxError, ValueError, EOFError, IndexError) as error:
        return f"refused: {error}"
    if pixels is None:
        return "refused"
    height, width, channels = pixels.shape
    crc = zlib.crc32(numpy.ascontiguousarray(pixels.astype(numpy.uint8)))
    return f"{width}x{height} {channels} {crc:08x}"


def make_files(folder):
    """Lets Pillow write all of its modes, with and without a transparent colour."""
    os.mkdir(folder)
    for number, size in enumerate(SIZES):
        image = Image.fromarray(noise(*size, 3))
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
            for level in (0, 1, 6, 9):
                one = image.convert("L").point(lambda v: v * 257, "I").convert("I;16") \
                    if mode == "I;16" else image.convert(mode)
                path = f"{folder}/{number}-{mode.replace(';', '')}-{level}"
                one.save(f"{path}.png", compress_level=level)
                if mode in ("L", "P"):
                    one.save(f"{path}-key.png", transparency=int(numpy.array(one)[0, 0]))
        image.quantize(2 + number).save(f"{folder}/{number}-few.png", bits=[1, 2, 4][number % 3])


def check_reader(report, name, folder):
    run = subprocess.run([os.path.join(os.path.dirname(report.tool), "png_corpus"), folder],
                         stdout=subprocess.PIPE, check=False)
    *lines, count = run.stdout.decode().splitlines()
    report.say(run.returncode == 0, f"{name}: as libpng alone: {count}")
    compared = refused = 0
    for line in lines:
        ours, path = line.split("\t")
        theirs = describe(path)
        if ours.startswith("refused") or theirs.startswith("refused"):
            refused += 1
            if ours[:7] != theirs[:7]:
                print(f"# {path}: {ours}, and Pillow: {theirs}")
            continue
        compared += 1
        if ours != theirs:
            report.say(False, f"{path}: {ours}, and Pillow: {theirs}")
    report.say(compared > 0, f"{name}: {compared} files as Pillow and OpenCV; {refused} refused")


def main():
    report = peer.Report(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        check_writer(report, folder)
        make_files(f"{folder}/theirs")
        check_reader(report, "files of Pillow", f"{folder}/theirs")
    for folder in sys.argv[2:]:
        check_reader(report, folder, folder)
    return report.end()


sys.exit(main())
