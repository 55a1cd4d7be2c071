# shellcheck shell=bash
# pictures.sh - images for the tests of the service; sourced.

# An image with enough detail to keep a codec busy: picture WIDTH HEIGHT (PPM on stdout)
picture() {
    awk -v w="$1" -v h="$2" 'BEGIN {
        printf "P3\n%d %d\n255\n", w, h
        for (y = 0; y < h; y++) {
            for (x = 0; x < w; x++)
                printf "%d %d %d ", x * 255 / w, y * 255 / h,
                    (x * y / 7 + (x % 13) * (y % 11)) % 256
            print "" } }'
}

make_pictures() { # folder
    picture 320 240 | cjpeg -quality 90 -outfile "$1/small.jpg"
    picture 1200 900 | cjpeg -quality 90 -outfile "$1/large.jpg"
}
