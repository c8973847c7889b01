#!/usr/bin/env bash
# Derives attention from its definition, runs it on this machine, checks it against the reference and times it beside the unfused program.
# DEMO_SIZE changes the sizes.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=examples/pf_global.tw
size=${DEMO_SIZE:-b=1,h=4,i=1024,j=1024}
dtypes=Q=f32,K=f32,V=f32,O=f32

scripts/build.sh

show() {
  printf '\n$ %s\n' "$*"
  "$@" </dev/null
}

say "The definition: $program"
cat "$program"
say "The state that its stream carries, with what was checked"
show build/tilewright derive "$program"
say "The one-pass program over tiles that follows from it: the picture of what is loaded, kept and streamed"
show build/tilewright emit "$program" --stage tile --target cpu
say "Running the kernel made from it"
show build/tilewright run "$program" --target cpu --size "$size" --dtype "$dtypes" --repeat 5
say "Comparing with the definition evaluated in double precision"
show build/tilewright check "$program" --target cpu --size "$size" --dtype "$dtypes"
say "The same computation unfused: our own kernels, one for each statement; add the three times"
show build/tilewright run bench/unfused/scores.tw --target cpu --size "$size" --repeat 5
show build/tilewright run bench/unfused/probabilities.tw --target cpu --size "$size" --repeat 5
show build/tilewright run bench/unfused/values.tw --target cpu --size "$size" --repeat 5
say "Done. Other programs are in examples/"
