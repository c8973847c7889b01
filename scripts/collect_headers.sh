#!/usr/bin/env bash
# scripts/collect_headers.sh DIR: copies the headers of the dependencies from this machine to DIR/include,
# for a machine that has only a compiler and CMake: configure there with -DTILEWRIGHT_DEPS=DIR.
# The headers are looked for in /usr/include, or in the folder that HEADERS names.
set -euo pipefail

if [ $# != 1 ]; then
  echo "usage: scripts/collect_headers.sh DIR" >&2
  exit 2
fi
from=${HEADERS:-/usr/include}
to=$1/include
declare -A package=([fmt]=libfmt-dev [CLI]=libcli11-dev [nlohmann]=nlohmann-json3-dev
                    [toml++]=libtomlplusplus-dev [xxhash.h]=libxxhash-dev)

for entry in "${!package[@]}"; do
  if [ ! -e "$from/$entry" ]; then
    echo "$from/$entry is missing: install ${package[$entry]} (scripts/setup.sh does)" >&2
    exit 1
  fi
done
mkdir -p "$to"
for entry in "${!package[@]}"; do
  rm -rf "${to:?}/$entry"
  cp -RL "$from/$entry" "$to/$entry"
done
# Newer xxHash splits its vector code off.
if [ -e "$from/xxh3.h" ]; then cp -L "$from/xxh3.h" "$to/"; fi
echo "Headers are in $to"
