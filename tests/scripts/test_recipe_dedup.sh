#!/bin/bash
# Runs queue/clients/recipes/dedup.py on hashes of a real daemon, and compares its groups with those
# of all pairs: tests/scripts/test_recipe_dedup.sh BUILD. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}")
. tests/scripts/recipe.sh
need_tools python3
begin dedup

# photo SEED WIDTH HEIGHT: a PGM of a few random waves, the same for each size
photo() {
    awk -v state="$1" -v w="$2" -v h="$3" 'function rand_of() { return (state = state * 16807 % 2147483647) / 2147483647 }
        BEGIN { for (i = 0; i < 9; i++) rand_of()
        for (i = 0; i < 12; i++) { a[i] = rand_of() * 6; b[i] = rand_of() * 6; c[i] = rand_of() * 6.3 }
        printf "P2\n%d %d\n255\n", w, h
        for (y = 0; y < h; y++)
            for (x = 0; x < w; x++) {
                v = 128
                for (i = 0; i < 12; i++) v += 12 * cos(6.3 * (a[i] * (x + 0.5) / w + b[i] * (y + 0.5) / h) + c[i])
                print (v < 0 ? 0 : v > 255 ? 255 : int(v)) } }'
}
make_photos() {
    local seed
    for seed in 1 2 3; do
        photo $seed 300 200 | cjpeg -quality 90 -outfile "$dir/photos/large-$seed.jpg"
        photo $seed 150 100 | cjpeg -quality 60 -outfile "$dir/photos/small $seed.jpg"
    done
    photo 4 150 100 | cjpeg -outfile "$dir/photos/"$'alone "\xc3\xbc".jpg'
    cp "$dir/photos/large-1.jpg" "$dir/photos/copy.jpg"
    echo 'no image' >"$dir/photos/broken.jpg"
}
group() { python3 "$recipes/dedup.py" "$@" 2>"$dir/errors"; }
wanted() {
    cat <<'END'
photos/copy.jpg | photos/large-1.jpg photos/small 1.jpg
photos/large-2.jpg | photos/small 2.jpg
photos/large-3.jpg | photos/small 3.jpg
END
}
found() {
    python3 -c 'import json, sys
for line in sys.stdin:
    group = json.loads(line)
    print(group["keep"], "|", *sorted(name for name, _ in group["same"]))' <"$1" | sort
}
test_photos() {
    local status
    (cd "$dir" && gpuimgctl submit -r photos --keys --no-output --ops phash --json >results.jsonl)
    group <"$dir/results.jsonl" >"$dir/groups"
    status=$?
    check "copies and smaller versions are grouped, the largest first" diff <(found "$dir/groups") <(wanted)
    check "a copy has a distance of 0" grep -q '\["photos/large-1.jpg", 0\]' "$dir/groups"
    check "an image without a hash is named" has "$(cat "$dir/errors")" "photos/broken.jpg: unsupported_format: "
    check "and the exit status is 1" equal "$status" 1
    { cat "$dir/results.jsonl" && sed '/"copy/!d' "$dir/results.jsonl" && echo '{"job": 1, "cut'; } >"$dir/twice"
    check "an image with two results counts once" diff <(group <"$dir/twice") "$dir/groups"
    group <"$dir/twice" >"$dir/null"
    check "a line that is no result is named" has "$(cat "$dir/errors")" "line 11: it is no result"
    check "with status 1, too" equal "$(echo junk | group; echo $?)" 1
    check "no results give no groups" equal "$(group </dev/null)" ""
    check "64 for a wrong distance" equal "$(group 12 </dev/null; echo $?)" 64
}
# Each image is in one group, at most DISTANCE away from its first, and firsts are further apart.
write_hashes() { # COUNT: random ones, and many that resemble another one
    python3 - "$1" <<'END'
import json, random, sys
chance = random.Random(7)
values = []
for n in range(int(sys.argv[1])):
    value = chance.getrandbits(64)
    if n % 3 and values:
        value = chance.choice(values[:1000])
        for bit in chance.sample(range(64), chance.randrange(12)):
            value ^= 1 << bit
    values.append(value)
for n, value in enumerate(values):
    print(json.dumps({"job": n, "input": {"path": str(n), "width": 10, "height": 10},
                      "outputs": [{"values": {"phash": f"{value:016x}"}}]}))
END
}
groups_are_right() { # HASHES GROUPS DISTANCE
    python3 - "$@" <<'END'
import json, sys
hashes, groups, most = open(sys.argv[1]), open(sys.argv[2]), int(sys.argv[3])
of = {line["input"]["path"]: int(line["outputs"][0]["values"]["phash"], 16) for line in map(json.loads, hashes)}
away = lambda a, b: sum(x != y for x, y in zip(f"{of[a]:064b}", f"{of[b]:064b}"))
rest, firsts = set(of), []
for group in map(json.loads, groups):
    rest.remove(group["keep"])
    firsts.append(group["keep"])
    for name, distance in group["same"]:
        rest.remove(name)
        assert distance == away(group["keep"], name) <= most, (group["keep"], name, distance)
firsts += rest
for i, a in enumerate(firsts):
    for b in firsts[:i]:
        assert away(a, b) > most, (a, b)
END
}
test_many() {
    local distance start
    write_hashes 400 >"$dir/hashes"
    for distance in 0 3 4 6 7 8 11; do
        group $distance <"$dir/hashes" >"$dir/groups"
        check "the groups of distance $distance are those of all pairs" groups_are_right "$dir/hashes" "$dir/groups" $distance
    done
    write_hashes 30000 >"$dir/hashes"
    start=$(seconds)
    group 6 <"$dir/hashes" >"$dir/groups"
    check "30,000 hashes take less than 20 s" less "$(since "$start")" 20
    echo "# $(wc -l <"$dir/groups") groups in $(since "$start") s"
}

mkdir "$dir/photos"
make_photos
start_daemon
test_photos
stop_daemon
test_many
exit $((failures > 0))
