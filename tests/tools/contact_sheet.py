#!/usr/bin/python3
"""contact_sheet.py - draws every operation on one image into one image with captions:

    contact_sheet.py BUILD OUT [PHOTO]

The CPU engine computes the tiles (tests/tools/apply). Without a photograph it draws a landscape.
"""
import json
import subprocess
import sys
import tempfile

from PIL import Image, ImageDraw, ImageFont, ImageOps

COLUMNS, TILE, CAPTION, GAP, TITLE = 5, (336, 224), 44, 20, 64
HISTOGRAM_LEFT = 40  # columns before its 256

TILES = [
    ("", {}),
    ("grayscale", {}),
    ("sobel", {}),
    ("sobel", {"magnitude": "l2"}),
    ("invert", {}),
    ("gamma", {"gamma": 2.2}),
    ("levels", {"in_black": 60, "in_white": 190}),
    ("threshold", {"value": 125}),
    ("color_matrix", {"matrix": [[.4, .8, .2, 0], [.3, .7, .2, 0], [.3, .5, .1, 0]]}),
    ("to_srgb", {}),
    ("transpose", {}),
    ("rotate", {"angle": 90}),
    ("rotate", {"angle": 180}),
    ("rotate", {"angle": 12, "background": [232, 232, 236]}),
    ("flip", {"axis": "horizontal"}),
    ("flip", {"axis": "vertical"}),
    ("crop", {"width": 200, "height": 140}),
    ("pad", {"left": 60, "right": 10, "top": 5, "bottom": 25, "color": [190, 60, 40]}),
    ("resize", {"width": 168}),
    ("resize", {"width": 150, "height": 150, "fit": "contain", "color": [40, 60, 90]}),
    ("resize", {"width": 42, "filter": "box"}),
    ("resize", {"width": 90, "height": 190, "fit": "cover", "focus": [.3, .2]}),
    ("resize", {"width": 90, "height": 190, "fit": "cover", "gravity": "attention"}),
    ("gaussian", {"ksize": 5}),
    ("gaussian", {"ksize": 21, "sigma": 6}),
    ("unsharp", {"amount": 3}),
    ("convolve", {"kernel": [[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]}),
    ("convolve", {"kernel": [[1] * 15]}),
    ("median", {"size": 3}),
    ("median", {"size": 5}),
    ("composite", {"input": "LOGO", "gravity": "southeast", "x": 12, "y": 12}),
    ("composite", {"input": "LOGO", "tile": True, "opacity": .4}),
    ("canny", {}),
    ("canny", {"low": 100, "high": 300}),
    ("histogram", {}),
    ("stats", {}),
    ("otsu", {}),
    ("equalize", {}),
    ("phash", {}),
    ("blurhash", {}),
    ("thumbhash", {}),
]


def landscape(width, height):
    """Draws a sky, the sun, hills and a field."""
    sky = Image.linear_gradient("L").resize((width, height))
    image = ImageOps.colorize(sky, (90, 150, 235), (210, 210, 195))
    draw = ImageDraw.Draw(image)
    draw.ellipse((690, 80, 830, 220), fill=(255, 236, 170))
    for period, top, base, color in ((420, 150, 200, (96, 112, 150)), (560, 130, 120, (60, 150, 60))):
        for x in range(width):
            at = x % period * 2 / period - 1
            draw.line((x, height - base - top * (1 - at * at), x, height), fill=color)
    for x in range(0, width, 96):
        for row in range(4):
            left, upper = x + row % 2 * 48, height - 96 + row * 24
            draw.rectangle((left, upper, left + 47, upper + 23), fill=(190, 160, 70))
    noise = Image.effect_noise(image.size, 24).convert("RGB")
    return Image.blend(image, noise, 0.06)


def apply(tool, image, ops):
    """Returns the image and the values of the operations."""
    bands = len(image.getbands())
    out = subprocess.run([tool, str(image.width), str(image.height), str(bands), json.dumps(ops)],
                         input=image.tobytes(), stdout=subprocess.PIPE, check=True).stdout
    head, pixels = out.split(b"\n", 1)
    width, height, channels, values = head.split(b" ", 3)
    mode = {1: "L", 3: "RGB"}[int(channels)]
    return Image.frombytes(mode, (int(width), int(height)), pixels), json.loads(values)


def draw_histogram(image, channels):
    """Draws the histogram over the lower half of the image, each channel in its color."""
    bands, most = list(image.split()), max(max(counts) for counts in channels)
    for band, counts in zip(bands, channels):
        draw = ImageDraw.Draw(band)
        for value, count in enumerate(counts):
            x, bar = HISTOGRAM_LEFT + value, count * image.height // (2 * most)
            if bar:
                draw.line((x, image.height - bar, x, image.height), fill=255)
    return Image.merge(image.mode, bands)


def put_logo(folder):
    """Writes the overlay of the tiles as apply reads it; returns its path."""
    logo = Image.new("RGBA", (96, 48))
    draw = ImageDraw.Draw(logo)
    draw.rounded_rectangle((0, 0, 95, 47), 12, (20, 40, 90, 150))
    draw.text((12, 14), "gpuimgd", (255, 255, 255, 255), font(18))
    path = f"{folder}/logo-96x48"
    with open(path, "wb") as file:
        file.write(logo.tobytes())
    return path


def describe(parameters, values):
    if "stats" in values:
        means = " ".join(f"{mean:.2f}" for mean in values["stats"]["mean"])
        return f"gives mean {means}, min, max"
    if "otsu" in values:
        return f"gives the threshold: {values['otsu']}"
    for name in ("phash", "blurhash", "thumbhash"):
        if name in values:
            return f"gives {values[name]}"
    return json.dumps(parameters, separators=(",", ":")).translate(str.maketrans("", "", '{}"'))


def draw_tile(sheet, place, photo, tool, name, parameters):
    """Scales large results down, and centres small ones at their size."""
    op = {"op": name, **parameters}
    if "input" in op:
        with tempfile.TemporaryDirectory() as folder:
            result, values = apply(tool, photo, [{**op, "input": put_logo(folder)}])
    else:
        result, values = apply(tool, photo, [op] if name else [])
    if "histogram" in values:
        result = draw_histogram(result, values["histogram"])
    result.thumbnail(TILE)
    sheet.paste((232, 232, 236), (*place, place[0] + TILE[0], place[1] + TILE[1]))
    sheet.paste(result, (place[0] + (TILE[0] - result.width) // 2,
                         place[1] + (TILE[1] - result.height) // 2))
    draw, top = ImageDraw.Draw(sheet), place[1] + TILE[1]
    draw.text((place[0], top + 4), name or "the image itself", (30, 30, 30), font(16))
    draw.text((place[0], top + 26), describe(parameters, values), (110, 110, 110), font(11))


def font(size):
    try:
        return ImageFont.truetype("DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default()


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: contact_sheet.py BUILD OUT [PHOTO]")
    build, out = sys.argv[1:3]
    names = subprocess.run([f"{build}/tests/tools/operations", "names"], stdout=subprocess.PIPE,
                           text=True, check=True).stdout
    missing = set(names.split()) - {name for name, _ in TILES}
    if missing:
        sys.exit(f"contact_sheet.py: there is no tile for {', '.join(sorted(missing))}")
    if len(sys.argv) > 3:
        photo = ImageOps.exif_transpose(Image.open(sys.argv[3])).convert("RGB")
    else:
        photo = landscape(3 * TILE[0], 3 * TILE[1])
    tool = f"{build}/tests/tools/apply"
    photo, _ = apply(tool, photo, [{"op": "resize", "width": TILE[0], "height": TILE[1],
                                    "fit": "cover", "enlarge": True}])
    rows = -(-len(TILES) // COLUMNS)
    step = (TILE[0] + GAP, TILE[1] + CAPTION + GAP)
    sheet = Image.new("RGB", (COLUMNS * step[0] + GAP, TITLE + rows * step[1]), (248, 248, 248))
    ImageDraw.Draw(sheet).text((GAP, 18), "gpuimgd: its operations", (30, 30, 30), font(26))
    for i, (name, parameters) in enumerate(TILES):
        place = (GAP + i % COLUMNS * step[0], TITLE + i // COLUMNS * step[1])
        draw_tile(sheet, place, photo, tool, name, parameters)
    sheet.save(out)
    print(f"{out}: {sheet.width} x {sheet.height}, {len(TILES)} tiles")


main()
