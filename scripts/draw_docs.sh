#!/usr/bin/env bash
# Draws the pictures of docs/diagrams.md again, into docs/pictures. Needs build/tilewright (scripts/build.sh), or the command that
# TILEWRIGHT names.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tilewright=${TILEWRIGHT:-build/tilewright}
mkdir -p docs/pictures

draw() {
  "$tilewright" draw "examples/$1.tw" --output "docs/pictures/${2:-$1}.svg" "${@:3}"
}

draw pf_causal
draw layernorm_matmul
draw paged
say "Pictures are in docs/pictures"
