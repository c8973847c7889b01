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
                    [toml++]=libtomlplusplus-dev [xxhash.h]=libxxhash-dev
                    [pugixml.hpp]=libpugixml-dev [pugiconfig.hpp]=libpugixml-dev)

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
# pugixml's source where it lies beside its header, else the library of its package.
rm -rf "$to/pugixml.cpp" "$1/lib"
if [ -e "$from/pugixml.cpp" ]; then
  cp -L "$from/pugixml.cpp" "$to/"
else
  library=
  for folder in "$from"/../lib "$from"/../lib/*; do
    if [ -e "$folder/libpugixml.a" ]; then library=$folder/libpugixml.a; fi
  done
  if [ -z "$library" ]; then
    echo "neither $from/pugixml.cpp nor libpugixml.a is there: install libpugixml-dev (scripts/setup.sh does)" >&2
    exit 1
  fi
  mkdir -p "$1/lib"
  cp -L "$library" "$1/lib/"
fi
echo "Headers are in $to"
