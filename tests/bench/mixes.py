"""The realistic mixes of host.py: a web proxy and uploads. A seed always gives the same files.

The files are parts of photographs and of drawn screenshots and icons (screens.py); the daemon
cuts, resizes and writes them with the CPU engine.

Web proxy: 400 files of 0.001 to 8 MP (SIZES): 33% baseline JPEG, 11% progressive, 38% PNG, 16%
WebP and 2% AVIF. Each job asks for one width and one format, and AVIFs of effort 1, which devices
encode. Images are not enlarged.

Uploads: 24 photographs like a phone's (phone.py, 12 MP) and 8 PNG screenshots of 12 MP. Each job
has all outputs of UPLOAD_OUTPUTS.
"""
import json
import math
import multiprocessing
import os
import random
import shutil

import phone
import screens
from photos import Photo
from rig import Rig
from works import Work, is_wanted

MIXES = WEB, UPLOADS = "web proxy", "uploads"
WEB_FILES, SEED = 400, 34
SIZES = [(0, 0.001), (0.5, 0.06), (0.9, 0.8), (0.99, 4), (1, 8)] # quantile and megapixels
KINDS = {"baseline": 33, "progressive": 11, "png": 38, "webp": 16, "avif": 2} # percent
OUTPUT_KINDS = {"webp": 65, "avif": 20, "jpg": 15}
WIDTHS = [160, 320, 640]
SUFFIXES = {"baseline": "jpg", "progressive": "jpg", "png": "png", "webp": "webp", "avif": "avif"}
ICON_MP_MAX = 0.2
PHOTO_SOURCES, SCREENS, OUTPUTS_PER_JOB = 16, 8, 8
SCREEN_WIDTH, SCREEN_HEIGHT, SCREEN_SCALES = 4000, 3000, (2, 3)
ICONS, ICONS_SIDE, ICON = "icons.png", 3072, 512
PHONE_WIDTH, PHONE_HEIGHT, PHONE_MADE, PHONE_FILES = 4032, 3024, 6, 24
PNG_LEVEL = 6 # of the files, as most encoders write them

UPLOAD_OUTPUTS = [
    *[("webp", [{"op": "resize", "width": side, "height": side}]) for side in (1600, 800)],
    ("jpg", [{"op": "resize", "width": 320, "height": 320}]),
    ("jpg", [{"op": "resize", "width": 160, "height": 160, "fit": "cover"}]),
    (None, [{"op": "resize", "width": 64}, "blurhash"]),
    (None, ["phash"])]


class WebWork(Work):
    """Each file has its own output."""

    def __init__(self, photos, requests):
        super().__init__(WEB, None, photos, batch=len(photos))
        self.requests = requests # suffix and operations per file

    def outputs_of(self, number):
        return [self.requests[number % len(self.photos)]]


def megapixels(quantile):
    """Interpolates the logarithm of the size."""
    for (low, small), (high, large) in zip(SIZES, SIZES[1:]):
        if quantile <= high:
            return small * (large / small) ** ((quantile - low) / (high - low))
    raise ValueError(quantile)


def shares(percents, count, chance):
    """Returns `count` keys in random order; each 100 in a row have the percentages exactly."""
    drawn = []
    while len(drawn) < count:
        part = [key for key, percent in percents.items() for _ in range(percent)]
        chance.shuffle(part)
        drawn += part
    return drawn[:count]


# ---- sources ------------------------------------------------------------------------------------

def draw_one(job):
    draw, *arguments = job
    return draw(*arguments)


def screen_name(number):
    return f"screen-{number}.png"


def draw_sources(options, photos, folder):
    """Draws the screenshots and icons, and puts a photograph into each screenshot."""
    drawn = [f"drawn-{i}.png" for i in range(SCREENS)]
    jobs = [(screens.draw_screen, os.path.join(folder, name), i, SCREEN_WIDTH, SCREEN_HEIGHT,
             SCREEN_SCALES[i % len(SCREEN_SCALES)]) for i, name in enumerate(drawn)]
    with multiprocessing.get_context("fork").Pool(options.threads) as pool:
        icons = pool.apply_async(screens.draw_icons, (os.path.join(folder, ICONS), SEED,
                                                      ICONS_SIDE, ICON))
        places = pool.map(draw_one, jobs, 1)
        icons.get()
    jobs = []
    for i, (x, y, width) in enumerate(places):
        photo = photos[i % len(photos)]
        jobs.append(json.dumps({
            "input": drawn[i], "output": {"path": screen_name(i), "compression": PNG_LEVEL},
            "ops": [{"op": "composite", "input": photo.name, "x": x, "y": y,
                     "scale": width / SCREEN_WIDTH}]}))
    with Rig(f"{options.build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        rig.run(jobs)
    for name in drawn:
        os.remove(os.path.join(folder, name))


class Source:
    """A photograph of which files are made."""
    shapes = [3 / 2, 4 / 3, 16 / 9, 1, 2 / 3, 3 / 4]

    def __init__(self, name, width, height):
        self.name, self.width, self.height = name, width, height

    def across(self, width, largest, chance):
        """Returns the width of the part that a file of this width shows."""
        return max(width, largest * chance.uniform(0.5, 1))

    def part(self, mp, chance):
        """Returns width and height of the file, and the operations that make it."""
        shape = chance.choice(self.shapes)
        width = max(1, round(math.sqrt(mp * 1e6 * shape)))
        height = max(1, round(width / shape))
        largest = min(self.width, self.height * shape)
        across = max(1, int(min(largest, self.across(width, largest, chance))))
        down = max(1, min(self.height, int(across / shape)))
        crop = {"op": "crop", "width": across, "height": down,
                "x": chance.randint(0, self.width - across),
                "y": chance.randint(0, self.height - down)}
        return width, height, [crop, {"op": "resize", "width": width, "height": height,
                                      "fit": "exact"}]


class ScreenSource(Source):
    """A screenshot. Half of its files have its own resolution."""
    shapes = [16 / 10, 16 / 9, 4 / 3, 2, 3, 1]

    def __init__(self, number):
        super().__init__(screen_name(number), SCREEN_WIDTH, SCREEN_HEIGHT)

    def across(self, width, largest, chance):
        return width * chance.choice((1, chance.uniform(1, 3)))


class IconSource(Source):
    def __init__(self):
        super().__init__(ICONS, ICONS_SIDE, ICONS_SIDE)

    def part(self, mp, chance):
        side = max(16, round(math.sqrt(mp * 1e6)))
        x, y = (ICON * chance.randrange(ICONS_SIDE // ICON) for _ in "xy")
        return side, side, [{"op": "crop", "width": ICON, "height": ICON, "x": x, "y": y},
                            {"op": "resize", "width": side, "height": side, "fit": "exact"}]


def choose(kind, mp, sources, chance):
    """Returns a source and the output's settings for a file of this kind."""
    photos, drawn, icons = sources
    part = chance.random()
    if kind in ("baseline", "progressive"):
        return chance.choice(drawn if part < 0.1 else photos), {
            "quality": chance.choice((75, 80, 85, 90)), "progressive": kind == "progressive",
            "subsampling": "444" if chance.random() < 0.2 else "420"}
    if kind == "png":
        if part < 0.35 and mp <= ICON_MP_MAX:
            return icons, {"compression": PNG_LEVEL}
        palette = {"colors": 256} if 0.35 <= part < 0.5 else {}
        return (chance.choice(photos if part > 0.85 else drawn),
                {"compression": PNG_LEVEL, **palette})
    if kind == "webp":
        if part < 0.2 and mp <= ICON_MP_MAX:
            return icons, {"lossless": part < 0.1}
        return chance.choice(drawn if part > 0.85 else photos), {"quality": 80}
    return chance.choice(photos), {}


# ---- the works ----------------------------------------------------------------------------------

def make_web(options, photos, folder):
    chance = random.Random(SEED)
    sources = ([Source(photo.name, photo.width, photo.height) for photo in photos[:PHOTO_SOURCES]],
               [ScreenSource(i) for i in range(SCREENS)], IconSource())
    made, parts = [], {}
    for i, kind in enumerate(shares(KINDS, WEB_FILES, chance)):
        mp = megapixels((i + 0.5) / WEB_FILES)
        source, settings = choose(kind, mp, sources, chance)
        width, height, ops = source.part(mp, chance)
        name = f"web-{i}.{SUFFIXES[kind]}"
        parts.setdefault(source.name, []).append({"output": {"path": name, **settings}, "ops": ops})
        made.append(Photo(os.path.join(folder, name), width, height, kind))
    jobs = [json.dumps({"input": name, "outputs": outputs[at:at + OUTPUTS_PER_JOB]})
            for name, outputs in parts.items() for at in range(0, len(outputs), OUTPUTS_PER_JOB)]
    with Rig(f"{options.build}/gpuimgd", folder, f"--output_root={folder}") as rig:
        rig.run(jobs)
    widths = [WIDTHS[i % len(WIDTHS)] for i in range(WEB_FILES)]
    chance.shuffle(widths)
    settings = {"avif": {"effort": 1}}
    requests = [(suffix, [{"op": "resize", "width": width}], settings.get(suffix, {}))
                for suffix, width in zip(shares(OUTPUT_KINDS, WEB_FILES, chance), widths)]
    chance.shuffle(made)
    return WebWork(made, requests)


def make_uploads(options, photos, folder):
    made = phone.make(f"{options.build}/gpuimgd", [photo.name for photo in photos[:PHONE_MADE]],
                      folder, PHONE_WIDTH, PHONE_HEIGHT)
    files = [Photo(os.path.join(folder, screen_name(i)), SCREEN_WIDTH, SCREEN_HEIGHT, "screen")
             for i in range(SCREENS)]
    for i in range(PHONE_FILES):
        path = os.path.join(folder, f"upload-{i}.jpg")
        shutil.copyfile(made[i % len(made)][0], path)
        files.append(Photo(path, PHONE_WIDTH, PHONE_HEIGHT, "phone"))
    random.Random(SEED).shuffle(files)
    return Work(UPLOADS, None, files, outputs=UPLOAD_OUTPUTS, batch=len(files))


def make_mixes(options, photos, folder):
    """Returns the works that are wanted, and prints why others are missing."""
    makers = [make for name, make in ((WEB, make_web), (UPLOADS, make_uploads))
              if is_wanted(options, name)]
    photos = [photo for photo in photos if photo.kind == "baseline"]
    try:
        if makers and photos:
            draw_sources(options, photos, folder)
            return [make(options, photos, folder) for make in makers]
    except Exception as error: # the other works go on
        print(f"{WEB}, {UPLOADS}: the files cannot be made: {error}")
    return []
