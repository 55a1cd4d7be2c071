#!/bin/bash
# Runs queue/clients/recipes/webdataset on shards with a broken image and on one that is cut off, and
# reads the tensors with WebDataset, if `make check-clients` has installed it, otherwise with the
# reader of train.py: tests/scripts/test_recipe_webdataset.sh BUILD. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}")
. tests/scripts/recipe.sh
begin webdataset
choose_python redis
export INPUT_ROOT=$dir/in OUTPUT_ROOT=$dir/out PYTHONDONTWRITEBYTECODE=1 # the recipe has no cache
reader=$python
installed=$build/webdataset/bin/python
"$installed" -c 'import webdataset' 2>/dev/null && reader=$installed
decoded='["n01/0000 5 (3, 224, 224) float16", "n01/0001 6 (3, 224, 224) float16", "n02/0002 7 (3, 224, 224) float16"]'

# photo SEED WIDTH HEIGHT FILE: a JPEG in colour
photo() {
    awk -v seed="$1" -v w="$2" -v h="$3" 'BEGIN { printf "P3\n%d %d\n255\n", w, h
        for (y = 0; y < h; y++) for (x = 0; x < w; x++)
            print (x * seed + y) % 256, (y * 2 + seed * 40) % 256, (x + y * seed) % 256 }' |
        cjpeg -quality 90 -outfile "$4"
}
# write_shard FILE FIRST: three samples. As WebDataset demands, members of a sample are neighbours.
write_shard() {
    "$python" - "$dir/in" "$@" <<'END'
import io, pathlib, sys, tarfile
folder, path, first = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with tarfile.open(folder / path, "w") as tar:
    for number, name in enumerate(("n01/0000", "n01/0001", "n02/0002")):
        image = (folder / f"{first + number}.jpg").read_bytes()
        for suffix, data in (("cls", b"%d" % (5 + number)), ("jpg", image), ("seg.json", b'{"n": %d}' % number)):
            info = tarfile.TarInfo(f"{name}.{suffix}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
END
}
make_shards() {
    photo 1 300 260 "$dir/in/0.jpg" && photo 2 260 300 "$dir/in/1.jpg" && photo 3 500 375 "$dir/in/2.jpg" &&
        photo 4 256 256 "$dir/in/3.jpg" && photo 5 224 224 "$dir/in/5.jpg" && echo 'no image' >"$dir/in/4.jpg" &&
        write_shard train/0000.tar 0 && write_shard train/0001.tar 3
}

shards() { timeout 60 "$python" "$recipes/webdataset/shards.py" "$@" >"$dir/said" 2>"$dir/errors"; }
said() { equal "$(sort "$dir/said")" "$1"; }

# Prints each sample: key, suffixes, class, and type and shape of the tensor from its header.
samples() {
    "$reader" - "$1" <<'END'
import ast, os, sys
sys.path.insert(0, os.environ["recipes"] + "/webdataset")
try:
    import webdataset
    stream = webdataset.WebDataset([sys.argv[1]], shardshuffle=False)
except ImportError:
    import train
    stream = train.read_tars([sys.argv[1]])
for sample in stream:
    names = sorted(name for name in sample if not name.startswith("__"))
    line = [sample["__key__"], *names, sample["cls"].decode()]
    if "npy" in sample:
        data = sample["npy"]
        end = 10 + int.from_bytes(data[8:10], "little")
        head = ast.literal_eval(data[10:end].decode())
        assert data[:8] == b"\x93NUMPY\x01\0" and len(data) == end + 2 * 3 * 224 * 224, len(data)
        line += [head["descr"], str(head["shape"]), str(head["fortran_order"])]
    print(*line)
END
}
samples_are() { diff <(samples "$1") -; } # FILE <EXPECTED
# single IMAGE: its tensor by a job of its own
single() {
    "$python" - "$1" <<'END' | redis-cli -s "$dir/redis.sock" -x LPUSH gpuimgd:jobs
import json, os, sys
sys.path.insert(0, os.environ["recipes"] + "/webdataset")
import shards
output = {"path": "single.npy", **shards.TENSOR}
print(json.dumps({"input": sys.argv[1], "output": output, "ops": shards.OPS}), end="")
END
    has "$(ask_redis BRPOP gpuimgd:results 20)" '"status":"done"'
}
member_is() { tar -xOf "$1" "$2" | cmp - "$3"; } # TAR MEMBER FILE

test_tensors() {
    check "a broken image gives the status 1" equal "$(shards train/ tensors; echo $?)" 1
    check "each shard has a line" said 'train/0000.tar: 3 images, 0 failed, 6 copied
train/0001.tar: 2 images, 1 failed, 6 copied'
    check "the image is named" has "$(cat "$dir/errors")" "train/0001.tar: n01/0001.jpg: unsupported_format: "
    check "samples keep their keys, classes and order" samples_are "$dir/out/tensors/0000.tar" <<'END'
n01/0000 cls npy seg.json 5 <f2 (3, 224, 224) False
n01/0001 cls npy seg.json 6 <f2 (3, 224, 224) False
n02/0002 cls npy seg.json 7 <f2 (3, 224, 224) False
END
    check "the broken one has no tensor" samples_are "$dir/out/tensors/0001.tar" <<'END'
n01/0000 cls npy seg.json 5 <f2 (3, 224, 224) False
n01/0001 cls seg.json 6
n02/0002 cls npy seg.json 7 <f2 (3, 224, 224) False
END
    check "tar reads it without a warning" equal "$(tar -tf "$dir/out/tensors/0000.tar" 2>&1 >"$dir/null")" ""
    check "a single job is done" single 2.jpg
    check "its tensor has the same bytes" member_is "$dir/out/tensors/0000.tar" n02/0002.npy "$dir/out/single.npy"
    check "other members are copied" equal "$(tar -xOf "$dir/out/tensors/0000.tar" n01/0001.seg.json)" '{"n": 1}'
}
test_decoded() {
    if [ "$reader" != "$installed" ]; then
        echo "ok - WebDataset decodes the tensors # SKIP it is not installed: make check-clients"
        return
    fi
    check "WebDataset decodes the tensors" equal "$("$reader" - "$dir/out/tensors/0000.tar" <<'END'
import json, sys, webdataset
stream = webdataset.WebDataset([sys.argv[1]], shardshuffle=False).decode().to_tuple("__key__", "npy", "cls")
print(json.dumps([f"{key} {label} {tensor.shape} {tensor.dtype}" for key, tensor, label in stream]))
END
)" "$decoded"
}
test_again() {
    check "a second run has nothing to do" shards train tensors
    check "because the outputs are there" said 'train/0000.tar: tensors/0000.tar is there
train/0001.tar: tensors/0001.tar is there'
    mkdir "$dir/in/cut"
    cp "$dir/in/train/0000.tar" "$dir/in/cut/good.tar"
    head -c 20000 "$dir/in/train/0000.tar" >"$dir/in/cut/short.tar"
    check "a shard that is cut off gives the status 1" equal "$(shards cut cut; echo $?)" 1
    check "and its name and code" has "$(cat "$dir/errors")" "cut/short.tar: bad_archive: "
    check "it has no output" not test -e "$dir/out/cut/short.tar"
    check "the other one has" samples_are "$dir/out/cut/good.tar" < <(samples "$dir/out/tensors/0000.tar")
}
test_usage() {
    check "64 without arguments" equal "$(shards; echo $?)" 64
    check "64 for a folder without shards" equal "$(shards none tensors; echo $?)" 64
    check "which it names" has "$(cat "$dir/errors")" "$dir/in/none has no *.tar"
    check "64 for a wrong number of epochs" equal "$(train tensors many; echo $?)" 64
}
train() { "$trainer" "$recipes/webdataset/train.py" "$@" >"$dir/said" 2>"$dir/errors"; }
test_training() {
    check "train.py ends with status 0" train "$dir/out/tensors" 2
    if "$trainer" -c 'import torch' 2>/dev/null; then
        check "it trains on the samples that are complete" has "$(cat "$dir/said")" "epoch 1: 5 samples, loss "
        check "1 if there is none" equal "$(train "$dir/in/train"; echo $?)" 1
    else
        check "it says that there is no PyTorch" said "no training: PyTorch is not installed here"
    fi
}

trainer=$python
for candidate in "$installed" python3 /usr/bin/python3; do
    "$candidate" -c 'import torch, numpy' 2>/dev/null && trainer=$candidate && break
done
mkdir "$dir/in/train"
check "the shards are made" make_shards
start_daemon
test_tensors
test_decoded
test_again
test_training
test_usage
stop_daemon
exit $((failures > 0))
