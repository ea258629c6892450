#!/bin/sh
# usage: test_c.sh PYTHON [SANITIZERS]   -- builds and runs the C tests; says loudly where cmocka is missing
set -eu
python=$1
sanitize=${2:-}
if ! [ -e /usr/include/cmocka.h ] && ! pkg-config --exists cmocka 2>/dev/null; then
  echo "!! cmocka is not installed: THE C TESTS ARE NOT RUN (Debian: apt-get install libcmocka-dev)"
  exit 0
fi
build=build/c-$(echo "${sanitize:-plain}" | tr , -)
mkdir -p build
"$python" -m cmake -G Ninja -S . -B "$build" -DPython_EXECUTABLE="$python" -DCMAKE_MAKE_PROGRAM="$(dirname "$python")/ninja" \
  -DTPT_GLUE=OFF -DTPT_TESTS=ON -DTPT_SANITIZE="$sanitize" -DCMAKE_BUILD_TYPE=$([ -n "$sanitize" ] && echo Debug || echo Release) >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
"$(dirname "$python")/ninja" -C "$build"
# Real plugins are not instrumented: with sanitizers the null plugin alone is used.
if [ -z "$sanitize" ]; then
  TPT_TEST_PLUGINS=$("$python" tools/plugin_paths.py)
  export TPT_TEST_PLUGINS
fi
# Some tests fork processes that make threads of their own; the thread sanitizer would end those.
TSAN_OPTIONS="die_after_fork=0 ${TSAN_OPTIONS:-}"
export TSAN_OPTIONS
"$(dirname "$python")/ctest" --test-dir "$build" --output-on-failure -j2
