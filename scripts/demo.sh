#!/usr/bin/env bash
# Derives attention from its definition, runs it on this machine and checks it against the reference.
# DEMO_SIZE changes the sizes.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=examples/pf_global.tw
size=${DEMO_SIZE:-b=1,h=4,i=512,j=512}

scripts/build.sh

show() {
  printf '\n$ %s\n' "$*"
  "$@" </dev/null
}

say "The definition: $program"
cat "$program"
say "The state that its stream carries, with proofs"
show build/tilewright derive "$program"
say "Running the kernel made from it"
show build/tilewright run "$program" --target cpu --size "$size"
say "Comparing with the definition evaluated in double precision"
show build/tilewright check "$program" --target cpu --size "$size"
say "The picture"
show build/tilewright draw "$program" --size "$size" -o build/attention.svg
say "Done. The picture is build/attention.svg; other programs are in examples/"
