#!/bin/bash
# Runs queue/clients/recipes/scans.json with the command of its README, and reads the DPI and the
# pixels of the outputs: tests/scripts/test_recipe_scans.sh BUILD. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}")
. tests/scripts/recipe.sh
need_tools python3
begin scans

# with_density FILE UNIT X Y: the blocks as a JPEG whose JFIF header has this density; UNIT 1: per
# inch, 2: per centimetre
with_density() {
    write_blocks "$1"
    python3 - "$@" <<'END'
import struct, sys
path, unit, x, y = sys.argv[1], *map(int, sys.argv[2:])
data = bytearray(open(path, "rb").read())
assert data[:4] == b"\xff\xd8\xff\xe0" and data[6:11] == b"JFIF\0"
data[13:18] = struct.pack(">BHH", unit, x, y)
open(path, "wb").write(data)
END
}
# Prints the dots per metre and the pixels of a gray PNG without interlacing, from its chunks.
read_png() {
    python3 - "$1" <<'END'
import struct, sys, zlib
data, at, body, dots = open(sys.argv[1], "rb").read(), 8, b"", None
while at < len(data):
    length, kind = struct.unpack(">I4s", data[at:at + 8])
    value = data[at + 8:at + 8 + length]
    if kind == b"IHDR":
        width, height, depth, colour, _, _, lace = struct.unpack(">IIBBBBB", value)
        assert colour == 0 and lace == 0, (colour, lace)
    elif kind == b"IDAT":
        body += value
    elif kind == b"pHYs":
        dots = struct.unpack(">IIB", value)
    at += 12 + length
print("dots", *(dots or ["none"]), "depth", depth)
size, rows = (width * depth + 7) // 8, zlib.decompress(body)
before = bytes(size)
step = max(1, depth // 8)
for y in range(height):
    kind, row = rows[y * (size + 1)], bytearray(rows[y * (size + 1) + 1:(y + 1) * (size + 1)])
    for x in range(size):
        left, up, corner = row[x - step] if x >= step else 0, before[x], before[x - step] if x >= step else 0
        near = min((abs(left + up - corner - v), n, v) for n, v in enumerate((left, up, corner)))[2]
        row[x] = (row[x] + (0, left, up, (left + up) // 2, near)[kind]) & 255
    before = row
    bits = "".join(f"{byte:08b}" for byte in row)
    print(*(int(bits[x * depth:(x + 1) * depth], 2) * 255 // ((1 << depth) - 1) for x in range(width)))
END
}
dots_are() { equal "$(read_png "$1" | head -1)" "dots $2"; } # FILE DOTS
pixels_are() { diff <(read_png "$1" | tail -n +2) <(blocks | sed 's/^ *//; s/  */ /g'); }
text_is_right() { # two levels, split at a gray value between two blocks
    diff <(paste -d' ' <(read_png "$1" | tail -n +2 | tr ' ' '\n') <(blocks | tr -s ' ' '\n' | sed '/^$/d') |
        awk '{ if ($1 == 255 && (!high || $2 < least)) { least = $2; high = 1 }
               if ($1 == 0 && $2 > most) most = $2
               if ($1 != 0 && $1 != 255) print "level", $1 } END { if (least <= most) print least, most }') /dev/null
}
command() { sed -n 's/^    \(gpuimgctl submit -r scans .*\)/\1/p' "$recipes/README.md"; }
archive() { (cd "$dir/in" && cp "$recipes/scans.json" . && bash -c "$(command)" </dev/null); }

test_scans() {
    mkdir -p "$dir/in/scans/box 1"
    with_density "$dir/in/scans/page.jpg" 1 300 300
    with_density "$dir/in/scans/box 1/page.jpg" 1 600 300
    with_density "$dir/in/scans/metric.jpg" 2 118 118
    with_density "$dir/in/scans/ratio.jpg" 0 1 1
    start_daemon
    check "the command of the README" archive
    local archive=$dir/out/archive text=$dir/out/text
    check "300 dots per inch" dots_are "$archive/page.png" "11811 11811 1 depth 8"
    check "600 x 300, in a folder" dots_are "$archive/box 1/page.png" "23622 11811 1 depth 8"
    check "118 dots per centimetre" dots_are "$archive/metric.png" "11800 11800 1 depth 8"
    check "a scan without a density has none" dots_are "$archive/ratio.png" "none depth 8"
    check "the archive has the pixels of the scan" pixels_are "$archive/page.png"
    check "the text has 1 bit per pixel, and the density" dots_are "$text/page.png" "11811 11811 1 depth 1"
    check "and two levels" text_is_right "$text/page.png"
    check "there are previews" test -s "$dir/out/web/page.webp" -a -s "$dir/out/web/box 1/page.webp"
    cp "$archive/box 1/page.png" "$dir/in/scans/again.png"
    check "a PNG as input" archive
    check "keeps its density, too" dots_are "$archive/again.png" "23622 11811 1 depth 8"
}
test_failures() {
    echo 'no scan' >"$dir/in/scans/broken.jpg"
    check "a broken scan fails the command" not archive
    check "the other scans are there" test -s "$dir/out/archive/page.png"
    check "and the broken one is not" not test -e "$dir/out/archive/broken.png"
}
test_scans
test_failures
stop_daemon
exit $((failures > 0))
