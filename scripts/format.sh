#!/usr/bin/env bash
# scripts/format.sh check|fix: compares the C and C++ sources with .clang-format, or formats them.
# Without clang-format it says so; `check` then passes, `fix` fails. CLANG_FORMAT names another one.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=${1:-check}
tool=${CLANG_FORMAT:-clang-format}
case $mode in check|fix) ;; *) echo "usage: scripts/format.sh check|fix" >&2; exit 2 ;; esac

if ! command -v "$tool" >/dev/null; then
  echo "clang-format not found: nothing done (Debian: apt-get install clang-format)" >&2
  if [ "$mode" = check ]; then exit 0; else exit 1; fi
fi

folders=()
for folder in tilewright cli include python tests bench examples; do
  if [ -d "$folder" ]; then folders+=("$folder"); fi
done
mapfile -d '' files < <(find "${folders[@]}" -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.c' \) -not -path '*/expected/*' -print0 | sort -z)
if [ ${#files[@]} = 0 ]; then exit 0; fi

if [ "$mode" = fix ]; then
  printf '%s\0' "${files[@]}" | xargs -0 "$tool" -i
else
  printf '%s\0' "${files[@]}" | xargs -0 "$tool" --dry-run --Werror
fi
