#!/bin/bash
# Tests the Python package and the JSON Schemas: whether the generated files are those of the sources,
# and, in a fresh virtual environment with the installed package, tests/python/test_*.py with real
# daemons and mypy. Prints TAP. tests/scripts/test_python.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=$(realpath "${1:-build/release}")
readonly build package=queue/clients/python
unset PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1 GPUIMGD_BUILD=$build
need_tools redis-server

# Prints a Python of at least 3.9 that has redis-py, if possible with the tools of this test.
choose_python() {
    local python best=
    for python in python3 /usr/bin/python3; do
        command -v "$python" >/dev/null &&
            "$python" -c 'import sys, redis; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
        best=${best:-$python}
        "$python" -c 'import redis, jsonschema, setuptools, pip' 2>/dev/null && best=$python && break
    done
    command -v "$best"
}
python=$(choose_python)
[ -n "$python" ] || { echo "ok - ${0##*/} # SKIP there is no Python 3.9 with redis-py here"; exit 77; }
make_world python

skip() { echo "ok - $1 # SKIP $2"; }
has_module() { "$python" -c "import $1" 2>/dev/null; }

# setuptools before 70.1 needs the package wheel.
can_build() {
    { has_module setuptools.command.bdist_wheel || { has_module setuptools && has_module wheel; }; } &&
        "$python" -m pip --python "$python" --version >/dev/null 2>&1 && has_module venv
}
# The folder is copied, because setuptools builds in it.
build_wheel() {
    cp -r "$package" "$dir/package" &&
        "$python" -m pip wheel -q --disable-pip-version-check --no-index --no-deps --no-build-isolation \
            -w "$dir" "$dir/package"
}
make_environment() {
    "$python" -m venv --system-site-packages --without-pip "$dir/venv" &&
        "$python" -m pip --disable-pip-version-check --python "$dir/venv/bin/python" install -q --no-index \
            --no-deps --ignore-installed "$dir"/gpuimgd-*.whl
}
installed_from_it() {
    local said
    said=$(cd / && "$dir/venv/bin/python" -c 'import gpuimgd; gpuimgd.job_schema()
print(gpuimgd.__version__, gpuimgd.__file__)') &&
        equal "${said%/lib/*}" "$(sed -n 's/^VERSION = //p' Makefile) $dir/venv"
}
# Runs the test programs at once; prints their lines one after the other.
programs=(client faults aio readme celery inputs)
run_programs() { # PYTHON
    local name
    has_module jsonschema && programs+=(schema) || skip "JSON Schemas" "there is no Python module jsonschema here"
    for name in "${programs[@]}"; do
        "$1" -B "tests/python/test_$name.py" >"$dir/$name.log" 2>&1 &
        processes+=($!)
    done
    for name in "${!programs[@]}"; do
        wait "${processes[$name]}" || programs_failed=1
        # Lines of TAP begin with ok, not ok or a reason; others are of libraries.
        cat "$dir/${programs[$name]}.log"
    done
}
has_types() { (cd "$package" && "$dir/venv/bin/python" -m mypy --cache-dir "$dir/mypy" src/gpuimgd); }
# mypy must report the lines that are marked, and no other.
sample_has_types() {
    local found
    found=$(cd tests/python && "$dir/venv/bin/python" -m mypy --strict --config-file "../../$package/pyproject.toml" \
        --cache-dir "$dir/mypy-sample" sample.py | sed -n 's/^sample.py:\([0-9]*\): error.*/\1/p' | sort -un)
    diff <(grep -n '# wrong$' tests/python/sample.py | cut -d: -f1) - <<<"$found"
}

main() {
    local programs_failed=0 processes=()
    check "the package and the schemas are those of the sources" queue/clients/generate.py "$build" --check
    if can_build; then
        check "the wheel is built without a network" build_wheel
        check "it is installed into a fresh environment" make_environment
        check "which has this version" installed_from_it
        python=$dir/venv/bin/python
    else
        skip "the package is built and installed" "there is no pip, setuptools or wheel here"
        export PYTHONPATH=$PWD/$package/src
    fi
    run_programs "$python"
    if [ -d "$dir/venv" ] && has_module mypy; then
        check "mypy --strict accepts the package" has_types
        check "mypy --strict finds the mistakes in a program, and only those" sample_has_types
    else
        skip "types" "there is no mypy here (python3-mypy)"
    fi
    [ "$failures" -eq 0 ] && [ "$programs_failed" -eq 0 ]
}
main
