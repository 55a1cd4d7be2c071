#!/bin/sh
# Installs missing dependencies of the build and the tests. An argument selects others: `build`
# those of a full build, `demo` those of make demo, and `peers`, `bench-formats`, `bench-avif`,
# `bench-host`, `bench-sets`, `png`, `fuzz`, `valgrind`, `page`, `tls`, `urls`, `manifests` and `deb`
# the additional ones of these targets. Checks for commands and libraries, not for packages, so
# nothing is installed if all work. Fails only if a dependency stays missing that the target requires.
# CUDA=yes in the environment: the build includes the CUDA engine.
# `promtool FOLDER` puts Prometheus's checker into the folder without installing its package, which
# would start a server.
set -eu

pkg_config=${PKG_CONFIG:-pkg-config}
missing= wanted=

# need_*: required by the target; want_*: used by some tests, which are skipped by name without it.
has_library() { # pkg-config name
    command -v "$pkg_config" >/dev/null 2>&1 && "$pkg_config" --exists "$1" 2>/dev/null
}
need_command() { # command package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need_library() { # pkg-config name, package
    has_library "$1" || missing="$missing $2"
}
# Only for packages that Debian's tools require by name.
need_package() { # package
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] || missing="$missing $1"
}
need_module() { # Python module, package
    /usr/bin/python3 -c "import $1" 2>/dev/null || missing="$missing $2"
}
want_command() { # command package
    command -v "$1" >/dev/null 2>&1 || wanted="$wanted $2"
}
want_library() { # pkg-config name, package
    has_library "$1" || wanted="$wanted $2"
}
want_font() { # code point, package
    fc-list ":charset=$1" 2>/dev/null | grep -q . || wanted="$wanted $2"
}

want_module() { # Python module, package
    /usr/bin/python3 -c "import $1" 2>/dev/null || wanted="$wanted $2"
}

need_build() {
    need_command "${CC:-cc}" gcc
    [ "${CUDA:-no}" != yes ] || need_command g++ g++ # nvcc calls it
    [ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
    need_command "$pkg_config" pkgconf
    need_library libuv libuv1-dev
    need_library hiredis libhiredis-dev
    need_library libjpeg libjpeg62-turbo-dev
    need_library libpng libpng-dev
    need_library libcjson libcjson-dev
    need_library libsystemd libsystemd-dev
    want_library libmicrohttpd libmicrohttpd-dev
    want_library libcurl libcurl4-openssl-dev
    want_library lcms2 liblcms2-dev
    want_library libwebp libwebp-dev
    want_library libavif libavif-dev
    want_library libjxl libjxl-dev
    want_library libheif libheif-dev
    want_library libgif libgif-dev
    want_library libtiff-4 libtiff-dev
    want_library pangocairo libpango1.0-dev
    want_library libarchive libarchive-dev
    want_library openssl libssl-dev
}

if [ "${1:-}" = promtool ]; then
    mkdir -p "$2"
    cd "$2"
    [ ! -x promtool ] || exit 0
    if found=$(command -v promtool); then
        ln -s "$found" promtool
        exit 0
    fi
    echo "make deps: fetching promtool"
    apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool >promtool.new
    chmod +x promtool.new
    mv promtool.new promtool
    rm prometheus_*.deb
    exit 0
fi

if [ "${1:-}" = peers ]; then
    [ -x /usr/bin/python3 ] || missing="$missing python3"
    need_module cv2 python3-opencv
    need_module PIL python3-pil
    need_module numpy python3-numpy
    need_module scipy python3-scipy
    need_module blurhash python3-blurhash
    need_command redis-server redis-server
    need_command pngcheck pngcheck
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
elif [ "${1:-}" = bench-formats ]; then
    [ -x /usr/bin/python3 ] || missing="$missing python3"
    need_module PIL python3-pil
    need_command vips libvips-tools
    need_command cwebp webp
    need_command avifenc libavif-bin
    need_command cjxl libjxl-tools
elif [ "${1:-}" = bench-avif ]; then
    [ -x /usr/bin/python3 ] || missing="$missing python3"
    need_module PIL python3-pil
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
elif [ "${1:-}" = bench-host ]; then
    need_command python3 python3
    need_command redis-server redis-server
    want_command vips libvips-tools
elif [ "${1:-}" = bench-sets ]; then
    need_command python3 python3
    need_command redis-server redis-server
    want_module numpy python3-numpy # the libraries to compare with
    want_module PIL python3-pil
elif [ "${1:-}" = fuzz ]; then
    echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null || missing=clang
elif [ "${1:-}" = png ]; then
    need_library spng libspng-dev
    need_library libdeflate libdeflate-dev
elif [ "${1:-}" = valgrind ]; then
    need_command valgrind valgrind
elif [ "${1:-}" = page ]; then
    [ -x /usr/bin/python3 ] || missing="$missing python3"
    need_command "${CHROMIUM:-chromium}" chromium
elif [ "${1:-}" = tls ]; then
    need_command stunnel stunnel4
    need_command openssl openssl
elif [ "${1:-}" = urls ]; then
    need_command nginx nginx-light
    need_command openssl openssl
    need_command curl curl
    need_command webpinfo webp
    need_command avifdec libavif-bin
    need_module blurhash python3-blurhash
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
elif [ "${1:-}" = manifests ]; then
    [ -x /usr/bin/python3 ] || missing="$missing python3"
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
elif [ "${1:-}" = deb ]; then
    need_command dpkg-buildpackage dpkg-dev
    need_command dh debhelper
    need_package build-essential
    need_command lintian lintian
elif [ "${1:-}" = build ]; then
    need_build
    need_library cmocka libcmocka-dev
elif [ "${1:-}" = demo ]; then
    need_build
    need_command redis-server redis-server
    need_command redis-cli redis-tools
    need_command cjpeg libjpeg-turbo-progs
else
    need_build
    need_library cmocka libcmocka-dev
    want_command "${CXX:-g++}" g++
    want_command redis-server redis-server
    want_command redis-cli redis-tools
    want_command djpeg libjpeg-turbo-progs
    want_command mandoc mandoc
    # test_python.sh; with python3-mypy and python3-celery it tests more.
    want_module redis python3-redis
    want_module jsonschema python3-jsonschema
    want_module setuptools python3-setuptools
    want_module pip python3-pip
    want_module wheel python3-wheel
    want_module ensurepip python3-venv
    want_command inotifywait inotify-tools # of the recipes
    want_command sidekiq ruby-sidekiq
    want_module aiohttp python3-aiohttp
    want_module numpy python3-numpy
    want_module PIL python3-pil
    # test_text_drawing: DejaVu has Arabic and Hebrew, the others Chinese and emoji.
    want_command pango-view pango1.0-tools
    want_font 5d0 fonts-dejavu-core
    want_font 4e2d fonts-droid-fallback
    want_font 1f600 fonts-noto-color-emoji
fi

missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
wanted=$(printf '%s\n' $wanted | sort -u | tr '\n' ' ')
missing=${missing% } wanted=${wanted% }
[ -n "$missing$wanted" ] || exit 0

# Ends the script, because `missing` and `wanted` cannot be installed for this reason.
give_up() { # reason
    [ -z "$wanted" ] ||
        echo "make deps: going on without $wanted ($1); the tests that use it are skipped" >&2
    [ -n "$missing" ] || exit 0
    echo "make deps: $1; please install $missing" >&2
    exit 1
}

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1; then
    sudo=sudo
else
    give_up "neither root nor sudo here"
fi
command -v apt-get >/dev/null 2>&1 || give_up "no apt-get here"

install() { # package...
    echo "make deps: installing $*"
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "$@"
}

case " $missing " in
*" libjpeg62-turbo-dev "*) # Ubuntu names libjpeg-turbo's header package differently.
    apt-cache show libjpeg62-turbo-dev >/dev/null 2>&1 || $sudo apt-get update -q || true
    apt-cache show libjpeg62-turbo-dev >/dev/null 2>&1 ||
        missing=$(echo "$missing" | sed 's/libjpeg62-turbo-dev/libjpeg-turbo8-dev/')
    ;;
esac
if install $missing $wanted || { $sudo apt-get update -q && install $missing $wanted; }; then
    exit 0
fi
[ -z "$missing" ] || install $missing || give_up "apt-get cannot install them"
# One at a time, so that a package that the archive lacks does not prevent the others.
left=
for package in $wanted; do
    install "$package" || left="$left $package"
done
missing='' wanted=${left# }
[ -z "$wanted" ] || give_up "apt-get cannot install it"
