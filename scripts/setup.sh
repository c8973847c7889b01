#!/usr/bin/env bash
# Installs what is missing to build Tilewright on Debian or Ubuntu; does nothing where all is present.
#   scripts/setup.sh         what the library and the command need
#   scripts/setup.sh test    also what the tests need
# Where it cannot install, it names the packages and exits with 1.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

missing=()   # Debian packages without which nothing is built
optional=()  # packages that add speed or tests; their absence is no error

need() { missing+=("$1"); }
header() {
  local folder
  for folder in /usr/include /usr/local/include ${CPLUS_INCLUDE_PATH:+${CPLUS_INCLUDE_PATH//:/ }}; do
    if [ -e "$folder/$1" ]; then return 0; fi
  done
  return 1
}

find_missing() {
  missing=()
  command -v "${CXX:-c++}" >/dev/null || need g++
  cmake_tool >/dev/null || need cmake
  command -v ninja >/dev/null || need ninja-build
  if [ -z "${TILEWRIGHT_DEPS:-}" ]; then
    header fmt/format.h || need libfmt-dev
    header CLI/CLI.hpp || need libcli11-dev
    header nlohmann/json.hpp || need nlohmann-json3-dev
    header toml++/toml.h || need libtomlplusplus-dev
    header xxhash.h || need libxxhash-dev
    header pugixml.hpp || need libpugixml-dev
  fi
  if [ "${1:-}" = test ]; then
    header gtest/gtest.h || need libgtest-dev
  fi
}

find_optional() {
  optional=()
  command -v ccache >/dev/null || optional+=(ccache)
  if [ "${1:-}" = test ]; then
    command -v python3 >/dev/null || optional+=(python3)
    python3 -c 'import numpy' 2>/dev/null || optional+=(python3-numpy)
    command -v z3 >/dev/null || optional+=(z3)
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo ${CI:+-n} "$@"  # nobody answers a password prompt in continuous integration
  else
    return 1
  fi
}

install_packages() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
    >"$log" 2>&1 </dev/null
}

find_missing "${1:-}"
if [ ${#missing[@]} = 0 ]; then exit 0; fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if command -v apt-get >/dev/null; then
  find_optional "${1:-}"
  say "Installing" "${missing[@]}" "${optional[@]}"
  as_root apt-get update -qq >"$log" 2>&1 </dev/null || say "apt-get update failed; trying what it knows"
  install_packages "${missing[@]}" "${optional[@]}" || install_packages "${missing[@]}" || true
fi

hash -r
find_missing "${1:-}"
if [ ${#missing[@]} != 0 ]; then
  if [ -s "$log" ]; then tail -n 5 "$log" >&2; fi
  echo "Tilewright needs these packages, which could not be installed here: ${missing[*]}" >&2
  echo "Install them (Debian: apt-get install ${missing[*]})," \
       "or set TILEWRIGHT_DEPS to a folder of headers made by scripts/collect_headers.sh, and try again." >&2
  exit 1
fi
say "Installed"
