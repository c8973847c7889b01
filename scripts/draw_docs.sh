#!/usr/bin/env bash
# Draws the pictures of docs/diagrams.md again, into docs/pictures. Needs build/tilewright (scripts/build.sh), or the command that
# TILEWRIGHT names.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tilewright=${TILEWRIGHT:-build/tilewright}
mkdir -p docs/pictures

# draw PROGRAM PICTURE [OPTION...]
draw() { "$tilewright" draw "examples/$1.tw" --output "docs/pictures/$2.svg" "${@:3}"; }

draw pf_causal pf_causal
draw pf_causal pf_causal.plan --plan --target cuda --size b=1,h=8,i=4096,j=4096
draw layernorm_matmul layernorm_matmul
draw paged paged
say "Pictures are in docs/pictures"
