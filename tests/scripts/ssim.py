#!/usr/bin/python3
"""ssim.py - the images, the jobs and the checks of test_ssim.sh, with Pillow and NumPy:

    ssim.py make FOLDER       writes the images to FOLDER/in
    ssim.py jobs FOLDER PART  prints one job per line: wanted, then fixed, then converted
    ssim.py check FOLDER      compares FOLDER/out and FOLDER/results with what is expected

The similarity is computed from its definition in codecs/ssim.h, and from that of Wang et al. (2004),
which has other windows and therefore another value.
"""
import json
import sys

import numpy
from PIL import Image

FORMATS = {"jpeg": "jpg", "webp": "webp", "avif": "avif", "jxl": "jxl"}
TARGETS = {"photo": [0.9, 0.97], "drawing": [0.97], "gray": [0.95], "alpha": [0.95], "tiny": [0.99],
           "wide": [0.9]}
CANNOT = {("alpha", "jpeg"), ("wide", "webp")}
BLACK, WHITE = 0, 255
C1, C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
# How far the similarity may be from that with the windows of the paper.
PAPER = 0.04


def draw(name):
    """Returns an image with clouds and lines, without transparent colours that encoders change."""
    random = numpy.random.default_rng(len(name))
    width, height = {"tiny": (5, 3), "wide": (16384, 2)}.get(name, (160, 104))
    small = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=numpy.uint8)
    image = Image.fromarray(small).resize((width, height), Image.BICUBIC)
    pixels = numpy.asarray(image) + random.normal(0, 6, (height, width, 3))
    if name == "drawing":
        pixels[:] = 240
        pixels[::9, :, :] = [20, 20, 200]
        pixels[:, ::13, :2] = 30
        pixels[20:60, 30:90] = [200, 40, 40]
    image = Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))
    if name == "gray":
        return image.convert("L")
    if name == "alpha":
        ramp = numpy.tile(numpy.linspace(60, 255, width), (height, 1)).astype(numpy.uint8)
        image.putalpha(Image.fromarray(ramp))
    return image


def make(folder):
    for name in TARGETS:
        draw(name).save(f"{folder}/in/{name}.png")


# ---- jobs ----------------------------------------------------------------------------------------

def wanted():
    """Jobs with a similarity: the key is the name of the output."""
    for name, targets in TARGETS.items():
        for format_name in FORMATS:
            for target in targets if (name, format_name) not in CANNOT else []:
                yield f"{format_name}-{name}-{target}", name, format_name, {"quality": {"ssim": target}}
    yield "jpeg-most", "photo", "jpeg", {"quality": {"ssim": 0.9999, "min": 20, "max": 50}}
    yield "jpeg-least", "photo", "jpeg", {"quality": {"ssim": 0.1, "min": 35}}
    yield "jpeg-scans", "photo", "jpeg", {"quality": {"ssim": 0.96}, "progressive": True,
                                          "subsampling": "444"}
    yield "webp-most", "photo", "webp", {"quality": {"ssim": 0.9999, "max": 50}}
    yield "webp-small", "photo", "webp", {"quality": {"ssim": 0.99}, "max_bytes": 2500}
    yield "webp-large", "photo", "webp", {"quality": {"ssim": 0.9}, "max_bytes": 250000}


# Jobs with several formats: the key is the name of the output, the values are its image, its keys,
# and the jobs above of which it is the smallest file, or the most similar one.
CHOICES = {
    "auto-photo": ("photo", {"format": "auto", "quality": {"ssim": 0.9}},
                   ["jpeg-photo-0.9", "webp-photo-0.9", "avif-photo-0.9"]),
    "auto-wide": ("wide", {"format": "auto", "quality": {"ssim": 0.9}},
                  ["jpeg-wide-0.9", "avif-wide-0.9"]),
    "auto-tiny": ("tiny", {"format": "auto", "quality": {"ssim": 0.99}},
                  ["jpeg-tiny-0.99", "webp-tiny-0.99", "avif-tiny-0.99"]),
    "list-alpha": ("alpha", {"format": ["jpeg", "webp", "jxl"], "quality": {"ssim": 0.95}},
                   ["webp-alpha-0.95", "jxl-alpha-0.95"]),
    "list-gray": ("gray", {"format": ["jpeg", "webp"], "quality": {"ssim": 0.95}},
                  ["jpeg-gray-0.95", "webp-gray-0.95"]),
    "list-most": ("photo", {"format": ["webp", "jpeg"], "quality": {"ssim": 0.9999, "max": 50}},
                  ["jpeg-most", "webp-most"]),
}
REFUSED = [
    ({"path": "x.jpg", "format": "auto", "quality": {"ssim": 0.9}},
     'output.format has several formats, but the suffix of "x.jpg" means jpeg; omit the suffix'),
    ({"path": "x", "format": ["webp"], "quality": {"ssim": 0.9}, "progressive": True},
     "output.progressive is no key of the formats of output.format; omit it"),
    ({"path": "x", "format": ["webp"], "quality": {"ssim": 0.9}, "lossless": True},
     "output.lossless is true, but quality.ssim is 0.9"),
    ({"path": "x.png", "quality": {"ssim": 0.9}}, "output.quality is a key of jpeg, webp, avif and jxl"),
    ({"path": "x.webp", "quality": {"ssim": 0.9}, "lossless": True},
     "output.lossless is true, but quality.ssim is 0.9"),
    ({"path": "x.jpg", "quality": {"ssim": 1}}, "output.quality.ssim is 1; it must be a number from"),
    ({"path": "x.jpg", "quality": {"max": 50}}, "output.quality has no ssim"),
    ({"path": "x.jxl", "quality": {"ssim": 0.9}, "recompress": True}, "omit quality"),
]


def job(name, source, output, **more):
    return {"id": name, "input": source, "output": output, "timeout_s": 50, **more}


def load_results(folder):
    with open(f"{folder}/results", encoding="utf-8") as file:
        return {result["id"]: result for result in map(json.loads, file)}


def all_jobs(folder, part):
    results = load_results(folder)
    for name, source, format_name, keys in wanted():
        output = {"path": f"{name}.{FORMATS[format_name]}", **keys}
        if part == "wanted":
            yield job(name, f"in/{source}.png", output)
        elif results[name]["status"] == "done":
            quality = results[name]["outputs"][0]["quality"]
            for end, one in (("same", quality), ("below", quality - 1)):
                path = f"{name}-{end}.{FORMATS[format_name]}"
                if part == "fixed" and one > 0:
                    yield job(f"{name}-{end}", f"in/{source}.png", {**output, "path": path, "quality": one,
                                                                   "max_bytes": 0})
                elif part == "converted" and one > 0 and format_name != "jpeg":
                    yield job(f"{name}-{end}-png", f"out/{path}", f"{name}-{end}.png")
    if part == "wanted":
        for name, (source, keys, _) in CHOICES.items():
            yield job(name, f"in/{source}.png", {"path": name, **keys})
        for number, (output, _) in enumerate(REFUSED):
            yield job(f"refused-{number}", "in/photo.png", output)


# ---- similarity ----------------------------------------------------------------------------------

def luma(image, background):
    if image.mode == "RGBA":
        alpha = numpy.asarray(image.getchannel("A")).astype(float)
        colours = numpy.asarray(image.convert("RGB").convert("L")).astype(float)
        return numpy.floor((colours * alpha + background * (255 - alpha)) / 255 + 0.5)
    return numpy.asarray(image.convert("L")).astype(float)


def from_statistics(mean_a, mean_b, var_a, var_b, both):
    return ((2 * mean_a * mean_b + C1) * (2 * both + C2)
            / ((mean_a ** 2 + mean_b ** 2 + C1) * (var_a + var_b + C2))).mean()


def windows(plane):
    """The windows of 8 x 8 samples at every 4th row and column of the extended image."""
    more = [(0, max(-side % 4, 8 - side)) for side in plane.shape]
    whole = numpy.pad(plane, more, mode="edge")
    return numpy.lib.stride_tricks.sliding_window_view(whole, (8, 8))[::4, ::4]


def similarity(a, b):
    a, b = windows(a), windows(b)
    mean_a, mean_b = a.mean((2, 3)), b.mean((2, 3))
    both = ((a - mean_a[..., None, None]) * (b - mean_b[..., None, None])).mean((2, 3))
    return max(0, from_statistics(mean_a, mean_b, a.var((2, 3)), b.var((2, 3)), both))


def weighted(plane):
    """Means with the weights of the paper: a Gaussian of 11 x 11 samples."""
    weights = numpy.exp(-(numpy.arange(-5, 6) ** 2) / (2 * 1.5 ** 2))
    weights /= weights.sum()
    rows = numpy.apply_along_axis(numpy.convolve, 0, plane, weights, "valid")
    return numpy.apply_along_axis(numpy.convolve, 1, rows, weights, "valid")


def paper(a, b):
    mean_a, mean_b = weighted(a), weighted(b)
    return from_statistics(mean_a, mean_b, weighted(a * a) - mean_a ** 2,
                           weighted(b * b) - mean_b ** 2, weighted(a * b) - mean_a * mean_b)


def read(folder, name, format_name):
    image = Image.open(f"{folder}/out/{name}.{'jpg' if format_name == 'jpeg' else 'png'}")
    if format_name == "jpeg":
        image.draft("L", image.size)  # the Y of the file
    image.load()
    return image


# ---- checks --------------------------------------------------------------------------------------

def measure(folder, name, source, format_name):
    one, other = Image.open(f"{folder}/in/{source}.png"), read(folder, name, format_name)
    grounds = (BLACK, WHITE) if one.mode == "RGBA" else (WHITE,)
    return min(similarity(luma(one, ground), luma(other, ground)) for ground in grounds)


def check_job(folder, results, name, source, format_name, keys):
    told = results[name]["outputs"][0]
    found, quality = told["ssim"], told["quality"]
    target, most = keys["quality"]["ssim"], keys["quality"].get("max", 100)
    with open(f"{folder}/out/{told['path']}", "rb") as file, \
            open(f"{folder}/out/{name}-same.{FORMATS[format_name]}", "rb") as same:
        assert file.read() == same.read(), "the file is not that of its quality"
    measured = measure(folder, f"{name}-same", source, format_name)
    assert abs(measured - found) < 3e-6, f"the similarity is {measured}, not {found}"
    limit = keys.get("max_bytes", 1 << 30)
    assert told["bytes"] <= limit, f"{told['bytes']} bytes"
    assert found >= target or quality == most or name == "webp-small", f"{found} at {quality}"
    if name == "webp-small":
        assert found < target, "max_bytes has no effect"
    elif quality > keys["quality"].get("min", 1) and found >= target:
        below = measure(folder, f"{name}-below", source, format_name)
        assert below < target, f"quality {quality - 1} has {below}, and {quality} was found"
    if source in ("photo", "gray"):
        planes = [luma(image, WHITE) for image in (Image.open(f"{folder}/in/{source}.png"),
                                                   read(folder, f"{name}-same", format_name))]
        other = paper(*planes)
        assert abs(other - found) < PAPER, f"with the windows of the paper: {other}, not {found}"
        return abs(other - found)
    return 0


def check_choice(folder, results, name, others):
    """The output is the best of the outputs of other jobs, byte for byte."""
    made = [results[other]["outputs"][0] for other in others if results[other]["status"] == "done"]
    if not made:
        return  # this gpuimgd has none of the libraries
    assert results[name]["status"] == "done", results[name]
    told = results[name]["outputs"][0]
    best = max(made, key=lambda one: one["ssim"]) if name == "list-most" else min(
        made, key=lambda one: one["bytes"])
    assert (told["format"], told["quality"], told["ssim"]) == (
        best["format"], best["quality"], best["ssim"]), f"{told} of {made}"
    with open(f"{folder}/out/{name}", "rb") as file, open(f"{folder}/out/{best['path']}", "rb") as same:
        assert file.read() == same.read(), f"the file is not that of {best}"


def check(folder):
    results = load_results(folder)
    count = wrong = 0
    most = 0.0
    for number, (_, why) in enumerate(REFUSED):
        result = results[f"refused-{number}"]
        error = result.get("error") or result["outputs"][0]["error"]
        if why not in error["message"]:
            wrong += 1
            print(f"# {error['message']}; expected {why}")
    for name, (_, _, others) in CHOICES.items():
        try:
            check_choice(folder, results, name, others)
        except AssertionError as error:
            wrong += 1
            print(f"# {name}: {error}")
    for name, source, format_name, keys in wanted():
        result = results[name]
        if result["status"] != "done":
            is_missing = result["error"]["code"] == "unsupported_format"
            wrong += not is_missing
            print(f"# {name}: {result['error']['message']}")
            continue
        count += 1
        try:
            most = max(most, check_job(folder, results, name, source, format_name, keys))
        except AssertionError as error:
            wrong += 1
            print(f"# {name}: {error}")
    assert results["jpeg-most"]["outputs"][0]["quality"] == 50
    assert results["jpeg-least"]["outputs"][0]["quality"] == 35
    print(f"# {count} files; at most {most:.4f} from the paper's similarity")
    return 1 if wrong or count < 8 else 0


def main(command, folder, part=""):
    if command == "jobs":
        for one in all_jobs(folder, part):
            print(json.dumps(one))
        return 0
    return {"make": make, "check": check}[command](folder) or 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
