#!/usr/bin/env bash
# Builds and runs every test that this machine can run: the tests of what reads a user's text (errors, expressions,
# programs) under the address and undefined behaviour sanitizers (build/sanitize), then all tests optimised (build).
# The last line is ctest's verdict on the latter.
#   TILEWRIGHT_SANITIZE=0     leaves the sanitized tests out
#   TILEWRIGHT_SANITIZE=all   takes every unit, error and property test under the sanitizers
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

failed=0
log=build/ctest.log

scripts/setup.sh test
cmake=$(cmake_tool)
ctest=${cmake%cmake}ctest
say "Configuring"
configure release build
say "Building the command, the library and the tests"
compile build all

if [ "${TILEWRIGHT_SANITIZE:-1}" != 0 ]; then
  files='^(unit/(support|expr|program)_|error/program_errors)'
  targets=(tests_unit tests_error)
  if [ "${TILEWRIGHT_SANITIZE:-1}" = all ]; then
    files='^(unit|error|property)/'
    targets+=(tests_property)
  fi
  say "Building tests with sanitizers"
  configure sanitize build/sanitize -DTILEWRIGHT_TEST_FILES="$files"
  compile build/sanitize "${targets[@]}"
  say "Running them with sanitizers"
  UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1} \
    "$ctest" --test-dir build/sanitize -j "$JOBS" --output-on-failure --no-tests=error -R "$(tr / _ <<<"$files")" \
    </dev/null || failed=1
fi

say "Running all tests"
"$ctest" --test-dir build -j "$JOBS" --output-on-failure --no-tests=error \
  </dev/null 2>&1 | tee "$log" || failed=1

# ctest counts an executable whose cases skip themselves as passed; say how many cases did not run.
skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9][0-9]*\) tests\{0,1\}, listed below:.*/\1/p' \
            build/Testing/Temporary/LastTest.log | awk '{ n += $1 } END { print n + 0 }')
if [ "$skipped" != 0 ]; then
  say "$skipped test cases skipped themselves: they need what this machine lacks, such as a GPU"
fi
if [ "$failed" != 0 ]; then say "Some tests failed"; fi
grep 'tests passed' "$log" | tail -n 1
exit "$failed"
