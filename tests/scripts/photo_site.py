#!/usr/bin/python3
"""photo_site.py - the photo, the job and the checks of test_photo_site.sh:

    photo_site.py photo FOLDER                     writes IMG_0042.jpg and logo.png
    photo_site.py job [local] [without:FORMAT...]  prints README.md's job as one line
    photo_site.py preview [local]                  prints a job for the pixels before its blurhash
    photo_site.py colours PPM RESULT NUMBER        checks the pixels of an output
    photo_site.py hash PNG RESULT                  compares the blurhash with Python's blurhash

The upright photo has 3024 x 4032 pixels: four patches in Display P3, and black and white squares at
random, so low that a part from the middle would not have all of them. It is stored as an iPhone
stores it: lying on its side, with EXIF orientation 6. The expected sRGB colours are computed from
the chromaticities of both colour spaces.
"""
import json
import random
import struct
import subprocess
import sys
import zlib

WIDTH, HEIGHT = 3024, 4032
PATCHES = {  # a point inside each, and its colour in Display P3
    (700, 1500): (220, 70, 60), (2300, 1500): (60, 220, 120),
    (400, 2600): (235, 180, 50), (2700, 2600): (40, 110, 220)}
BOARD = (104, 2784, 2192, 3792)  # left, top, right, bottom
SQUARE = 24
LOGO_ALPHA, LOGO_SCALE = 128, 0.2
TOLERANCE = 4

# ---- the photo ----------------------------------------------------------------------------------


def column(x):
    """Returns the pixels of the upright photo's column x, from the top."""
    left = x < WIDTH // 2
    upper, lower = list(PATCHES.values())[:2], list(PATCHES.values())[2:]
    half = HEIGHT // 2
    pixels = bytes(upper[not left]) * half + bytes(lower[not left]) * half
    if BOARD[0] <= x < BOARD[2]:
        chance = random.Random((x - BOARD[0]) // SQUARE)
        squares = b"".join(bytes([chance.choice((0, 255))]) * (3 * SQUARE)
                           for _ in range((BOARD[3] - BOARD[1]) // SQUARE))
        pixels = pixels[:3 * BOARD[1]] + squares + pixels[3 * BOARD[3]:]
    return pixels


def s15f16(value):
    return struct.pack(">i", round(value * 65536))


def display_p3():
    """Returns an ICC profile with Apple's colorants of Display P3 and the curve of sRGB."""
    curve = b"para\0\0\0\0\0\3\0\0" + b"".join(
        map(s15f16, (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)))
    xyz = {b"rXYZ": (0.51512, 0.24120, -0.00105), b"gXYZ": (0.29198, 0.69225, 0.04189),
           b"bXYZ": (0.15710, 0.06657, 0.78407), b"wtpt": (0.96420, 1.0, 0.82491)}
    tags = [(name, b"XYZ \0\0\0\0" + b"".join(map(s15f16, value))) for name, value in xyz.items()]
    tags += [(name, curve) for name in (b"rTRC", b"gTRC", b"bTRC")]
    tags += [(name, struct.pack(">4sIII4sII", b"mluc", 0, 1, 12, b"enUS", 20, 28) +
              "Display P3".encode("utf-16-be")) for name in (b"desc", b"cprt")]
    table, data, at = struct.pack(">I", len(tags)), b"", 132 + 12 * len(tags)
    for name, value in tags:
        table += name + struct.pack(">II", at + len(data), len(value))
        data += value + bytes(-len(value) % 4)
    head = struct.pack(">I4sI4s4s4s12s4s4s28s3i", at + len(data), b"appl", 0x04000000, b"mntr",
                       b"RGB ", b"XYZ ", bytes(12), b"acsp", b"APPL", bytes(28),
                       63190, 65536, 54061)
    return head.ljust(128, b"\0") + table + data


def directory(at, tags):
    """Returns a TIFF directory at this offset, with its values after it. A tag is (number, type,
    count, bytes of the values)."""
    table, values = struct.pack(">H", len(tags)), b""
    end = at + 2 + 12 * len(tags) + 4
    for tag, kind, count, data in tags:
        table += struct.pack(">HHI", tag, kind, count)
        table += data.ljust(4, b"\0") if len(data) <= 4 else struct.pack(">I", end + len(values))
        values += data + bytes(len(data) % 2) if len(data) > 4 else b""
    return table + bytes(4) + values


def exif():
    """Returns an APP1 segment as a phone writes it: make, orientation 6, artist, copyright, a place,
    and a MakerNote of 35 kB with the serial number."""
    def text(tag, value):
        return tag, 2, len(value) + 1, value.encode() + b"\0"
    note = b"Apple iOS\0SERIAL-0815".ljust(35000, b"\xAA")
    main = [text(0x10F, "Apple"), (0x112, 3, 1, b"\0\6"), text(0x13B, "Ann Artist"),
            text(0x8298, "(c) 2024 Ann Artist"), (0x8769, 4, 1, bytes(4)),
            (0x8825, 4, 1, bytes(4))]
    own = [(0x927C, 7, len(note), note), (0xA001, 3, 1, b"\xFF\xFF"),
           text(0xA431, "SERIAL-4711")]
    place = [text(1, "N"), (2, 5, 3, struct.pack(">6I", 52, 1, 31, 1, 0, 1))]
    own_at = 8 + len(directory(8, main))
    place_at = own_at + len(directory(own_at, own))
    main[4] = (0x8769, 4, 1, struct.pack(">I", own_at))
    main[5] = (0x8825, 4, 1, struct.pack(">I", place_at))
    tiff = b"MM\0*\0\0\0\x08" + directory(8, main) + directory(own_at, own) + \
        directory(place_at, place)
    return b"\xff\xe1" + struct.pack(">H", 8 + len(tiff)) + b"Exif\0\0" + tiff


def write_photo(folder):
    """Row r of the stored image is column WIDTH - 1 - r of the upright one."""
    icc, path = f"{folder}/p3.icc", f"{folder}/IMG_0042.jpg"
    with open(icc, "wb") as file:
        file.write(display_p3())
    rows = b"".join(column(WIDTH - 1 - row) for row in range(WIDTH))
    jpeg = subprocess.run(["cjpeg", "-quality", "92", "-icc", icc], stdout=subprocess.PIPE,
                          input=b"P6 %d %d 255\n" % (HEIGHT, WIDTH) + rows, check=True).stdout
    with open(path, "wb") as file:
        file.write(jpeg[:2] + exif() + jpeg[2:])


def write_logo(folder):
    """Writes a white overlay of 640 x 320 pixels that lets half of the image through."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + \
            struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes((255, 255, 255, LOGO_ALPHA)) * 640) * 320
    with open(f"{folder}/logo.png", "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 640, 320, 8, 6,
                                                                     0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


# ---- the job ------------------------------------------------------------------------------------

def read_job(local):
    """Returns the job of the section "A job" of README.md."""
    with open("README.md", encoding="utf-8") as file:
        section = file.read().split("\n## A job\n")[1].split("\n## ")[0].split("\n### ")[0]
    lines = [line for line in section.splitlines() if line.startswith("    ")]
    job = json.loads("".join(lines))
    if local:
        job["input"] = job["input"]["url"].rsplit("/", 1)[1]
    return job


def format_of(output):
    path = output["output"]["path"] if isinstance(output["output"], dict) else output["output"]
    return path.rsplit(".", 1)[1]


def print_job(local, without):
    job = read_job(local)
    job["outputs"] = [output for output in job["outputs"]
                      if "output" not in output or format_of(output) not in without]
    print(json.dumps(job))


def print_preview(local):
    job = read_job(local)
    last = job["outputs"][-1]
    assert last["ops"][-1] == "blurhash" and "output" not in last
    job["outputs"] = [{"output": "preview.png", "ops": last["ops"][:-1]}]
    print(json.dumps(job))


# ---- the checks ---------------------------------------------------------------------------------

def solve(rows, wanted):
    """Solves three linear equations by Cramer's rule."""
    def det(m):
        return sum(m[0][i] * (m[1][(i + 1) % 3] * m[2][(i + 2) % 3] -
                              m[1][(i + 2) % 3] * m[2][(i + 1) % 3]) for i in range(3))
    return [det([row[:i] + [value] + row[i + 1:] for row, value in zip(rows, wanted)]) / det(rows)
            for i in range(3)]


def to_xyz(chromaticities):
    """Returns the matrix from linear colours with these primaries and white D65 to XYZ."""
    def xyz(x, y):
        return [x / y, 1, (1 - x - y) / y]
    primaries = [list(row) for row in zip(*(xyz(x, y) for x, y in chromaticities))]
    scale = solve(primaries, xyz(0.3127, 0.3290))
    return [[value * s for value, s in zip(row, scale)] for row in primaries]


def srgb_of(colour):
    """Converts a colour from Display P3 to sRGB; values that sRGB does not have become 0 or 255."""
    values = [v / 255 for v in colour]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    xyz = [sum(m * v for m, v in zip(row, linear))
           for row in to_xyz([(0.680, 0.320), (0.265, 0.690), (0.150, 0.060)])]
    linear = solve(to_xyz([(0.640, 0.330), (0.300, 0.600), (0.150, 0.060)]), xyz)
    linear = [min(1, max(0, v)) for v in linear]
    return [255 * (12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055)
            for v in linear]


def read_ppm(path):
    with open(path, "rb") as file:
        data = file.read()
    kind, width, height, most = data.split(maxsplit=4)[:4]
    assert kind == b"P6" and most == b"255"
    width, height = int(width), int(height)
    return width, height, data[len(data) - 3 * width * height:]


def mean(image, x, y, radius):
    width, _, pixels = image
    rows = [pixels[3 * (width * row + int(x - radius)):3 * (width * row + int(x + radius))]
            for row in range(int(y - radius), int(y + radius))]
    square = b"".join(rows)
    return [sum(square[c::3]) / (len(square) // 3) for c in range(3)]


def compare(what, got, want):
    text = "%s: %s, not %s" % (what, [round(v) for v in got], [round(v) for v in want])
    if any(abs(a - b) > TOLERANCE for a, b in zip(got, want)):
        sys.exit(text)


def check_colours(path, result, number):
    """Checks the patches, the place of the square, and the overlay in the lower right corner."""
    image = read_ppm(path)
    width, height, _ = image
    output = result["outputs"][number]
    assert (width, height) == (output["width"], output["height"]), output
    part = output.get("values", {}).get("attention", [0, 0, WIDTH, HEIGHT])
    if not (part[1] <= BOARD[1] and BOARD[3] <= part[1] + part[3]):
        sys.exit(f"the part {part} does not have all of the squares")
    scale = width / part[2]
    for (x, y), colour in PATCHES.items():
        want = srgb_of(colour)
        assert max(abs(a - b) for a, b in zip(want, colour)) > 2 * TOLERANCE
        got = mean(image, (x - part[0]) * scale, (y - part[1]) * scale, 100 * scale)
        compare(f"patch {colour}", got, want)
    under = srgb_of(PATCHES[(2700, 2600)])
    x, y = width * (1 - LOGO_SCALE / 2), height - width * LOGO_SCALE / 4
    alpha = LOGO_ALPHA / 255
    blended = [255 * alpha + value * (1 - alpha) for value in under]
    compare("overlay", mean(image, x, y, 0.03 * width), blended)
    compare("left of it", mean(image, x - 0.14 * width, y, 0.02 * width), under)
    compare("above it", mean(image, x, y - 0.09 * width, 0.02 * width), under)


def check_hash(path, result):
    import blurhash
    want = blurhash.encode(path, 4, 3)
    got = result["outputs"][-1]["values"]["blurhash"]
    if got != want:
        sys.exit(f"got {got}, not {want}")


def main():
    name, words = sys.argv[1], sys.argv[2:]
    if name == "photo":
        write_photo(words[0])
        write_logo(words[0])
    elif name == "job":
        print_job("local" in words, [word.split(":")[1] for word in words if ":" in word])
    elif name == "preview":
        print_preview("local" in words)
    elif name == "colours":
        check_colours(words[0], json.loads(words[1]), int(words[2]))
    elif name == "hash":
        check_hash(words[0], json.loads(words[1]))
    else:
        sys.exit(__doc__)


main()
