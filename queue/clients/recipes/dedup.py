#!/usr/bin/env python3
"""Groups similar images by their phash: dedup.py [DISTANCE] <results.jsonl

    gpuimgctl submit -r photos --keys --no-output --ops phash --json >results.jsonl
    dedup.py 6 <results.jsonl

Prints one line of JSON per group of two or more images: `keep` is the image with the most pixels,
`same` are the others, each with its distance to `keep`: the number of bits, of 64, that differ.
DISTANCE is the largest one, 0 to 11, by default 6. From about 10 on, different images are grouped,
too, and from 8 on it takes ten times as long. Each image is in one group. Python 3.10 or later.
Exit status: 0, 1 if an image has no hash or a line is no result, which standard error then names, 64
usage."""
import itertools
import json
import sys

# Two hashes with a distance of d have a band, of 16 bits, with a distance of at most d // 4.
BANDS = 4


def bands(value):
    """Neighbouring bits of a hash resemble each other, so each band has every fourth bit."""
    bits = f"{value:064b}"
    return [int(bits[band::BANDS], 2) for band in range(BANDS)]


def flips(distance):
    """Returns all values of 16 bits with at most this many bits set."""
    return [sum(1 << bit for bit in chosen) for count in range(distance // BANDS + 1)
            for chosen in itertools.combinations(range(16), count)]


def groups(hashes, distance):
    """Returns lists of (position, distance to the first of the list). Each hash joins the first
    that is nearest to it. Only firsts are in the index, so many similar images cost little."""
    found, near = {}, flips(distance)
    index = [[()] * 65536 for _ in range(BANDS)]  # band, its bits: positions of firsts
    known = {}  # hash: the first of its group, and the distance to it
    for position, value in enumerate(hashes):
        if value not in known:
            first, away, parts = position, distance + 1, bands(value)
            for table, part in zip(index, parts):
                for flip in near:
                    for other in table[part ^ flip]:
                        bits = (value ^ hashes[other]).bit_count()
                        if bits < away:
                            first, away = other, bits
            if first == position:
                away = 0
                for table, part in zip(index, parts):
                    table[part] = (*table[part], position)
            known[value] = first, away
        first, away = known[value]
        found.setdefault(first, []).append((position, away))
    return found.values()


def read(lines):
    """Returns {name: (pixels, hash)}, and {name: error}. Of several results of an image, the last
    one counts."""
    images, errors = {}, {}
    for number, line in enumerate(lines, 1):
        try:
            result = json.loads(line)
        except (ValueError, RecursionError):  # one that was cut off, for example
            result = None
        if not isinstance(result, dict):
            errors[f"line {number}"] = "it is no result"
            continue
        if "job" not in result:
            continue  # the last line of gpuimgctl
        image = result.get("input", {})
        name = (result.get("meta") or {}).get("file") or image.get("path") or image.get("key")
        values = [output.get("values", {}) for output in result.get("outputs", [])]
        value = next((each["phash"] for each in values if "phash" in each), None)
        images.pop(name, None)
        errors.pop(name, None)
        if value is None:
            error = result.get("error",
                               {"code": "no phash", "message": "its job did not ask for it"})
            errors[name] = f"{error['code']}: {error['message']}"
        else:
            images[name] = image["width"] * image["height"], int(value, 16)
    return images, errors


def main():
    text = sys.argv[1] if len(sys.argv) > 1 else "6"
    if len(sys.argv) > 2 or text not in map(str, range(12)):
        print(__doc__, file=sys.stderr)
        return 64
    images, errors = read(sys.stdin)
    for name, error in errors.items():
        print(f"{name}: {error}", file=sys.stderr)
    names = sorted(images, key=lambda name: (-images[name][0], str(name)))
    for group in groups([images[name][1] for name in names], int(text)):
        (first, _), *others = group
        if others:
            same = [[names[position], away] for position, away in others]
            print(json.dumps({"keep": names[first], "same": same}))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
