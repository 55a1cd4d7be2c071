# shellcheck shell=bash
# blocks.sh - an image that JPEG stores exactly, for scripts that have sourced tests/world.sh and made
# a world.

# Prints rows of gray blocks of 8 x 8, which JPEG stores exactly at qualities of 85 and more. With
# `turned`, prints them after flip and invert.
blocks() { # [turned]
    awk -v turned="${1:+1}" 'BEGIN {
        for (y = 0; y < 48; y++)
            for (x = 0; x < 64; x++) {
                bx = int(x / 8); if (turned) bx = 7 - bx
                v = (bx * 37 + int(y / 8) * 53) % 256; if (turned) v = 255 - v
                printf "%4d%s", v, x < 63 ? "" : "\n" } }'
}
write_blocks() { { printf 'P2\n64 48\n255\n'; blocks; } | cjpeg -quality 95 -outfile "$1"; } # FILE
# are_blocks FILE [turned]: compares the pixels of a JPEG with the blocks
are_blocks() {
    diff <(blocks "${@:2}") <(djpeg -grayscale -pnm "$1" | tail -c 3072 | od -An -v -tu1 -w64)
}
