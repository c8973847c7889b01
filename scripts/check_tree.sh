#!/usr/bin/env bash
# Checks the rules of the tree and lists every breach:
#   - a folder of tilewright/ includes only from itself and from folders declared before it in CMakeLists.txt
#     (tw_folder lines; DEPENDS narrows them); cli/ and everything else may include from all;
#   - every folder of tilewright/ is declared there and has a README.md, and so have the folders beside it;
#   - every source file of tilewright/ and cli/ is named in docs/system.md: foo.h and foo.cc by either name,
#     or as foo.{h,cc}; a name that several folders use is named once for each;
#   - tests/<label>/<stem>.cc has its names in a namespace ..::<stem>_test, since files of a label compile together.
# Exits with 1 if there is any. A root other than this repository may be given as an argument.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

breaches=0
breach() { echo "$*"; breaches=$((breaches + 1)); }

sources() {
  local root
  for root in tilewright cli; do
    if [ -d "$root" ]; then
      find "$root" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.inc' -o -name '*.def' \)
    fi
  done
}

declare -A allowed=()  # folder -> " folder folder ... " that it may include from
before=" "
while read -r line; do
  read -r name rest <<<"$line"
  if [[ $rest =~ DEPENDS\ ([a-z_ ]+) ]]; then
    allowed[$name]=" $name ${BASH_REMATCH[1]} "
  else
    allowed[$name]="$before$name "
  fi
  before+="$name "
done < <(sed -n 's/^tw_folder(\([^)]*\)).*/\1/p' CMakeLists.txt)

if [ ${#allowed[@]} = 0 ]; then breach "CMakeLists.txt declares no folders"; fi

for path in tilewright/*/; do
  if [ ! -d "$path" ]; then continue; fi
  folder=$(basename "$path")
  if [ -z "$(find "$path" -type f -print -quit)" ]; then continue; fi  # git does not keep empty folders
  if [ -z "${allowed[$folder]:-}" ]; then
    breach "tilewright/$folder: not declared by a tw_folder line of CMakeLists.txt"
    continue
  fi
  if [ ! -f "${path}README.md" ]; then breach "tilewright/$folder: README.md is missing"; fi
  while IFS=: read -r file number text; do
    if [[ $text =~ [\"\<]tilewright/([a-z_]+)/ ]]; then
      used=${BASH_REMATCH[1]}
      if [[ ${allowed[$folder]} != *" $used "* ]]; then
        breach "$file:$number: tilewright/$folder may not include from tilewright/$used"
      fi
    fi
    if [[ $text =~ \"(cli|tests|python|bench)/ ]]; then
      breach "$file:$number: tilewright/$folder may not include from ${BASH_REMATCH[1]}/"
    fi
  done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include' --include='*.h' --include='*.cc' \
             --include='*.inc' --include='*.def' "$path" || true)
done

for folder in bench cli cmake examples hardware python scripts tests tests/{unit,golden,error,property,differential,gpu,fuzz,numpy,support}; do
  if [ ! -f "$folder/README.md" ]; then breach "$folder: README.md is missing"; fi
done

map=docs/system.md
if [ ! -f "$map" ]; then
  breach "$map is missing"
else
  # "stem count": how many folders hold a file of that stem.
  while read -r stem count; do
    pattern="\\b${stem}\\.(\\{|(h|cc|inc|def)\\b)"
    named=$({ grep -oE "$pattern" "$map" || true; } | wc -l)
    if [ "$named" -lt "$count" ]; then
      where=$(sources | grep -E "/$stem\.[a-z]+$" | sort | tr '\n' ' ')
      breach "$map names '$stem' $named of $count times: ${where% }"
    fi
  done < <(sources | sed -E 's/\.[a-z]+$//' | sort -u | sed 's|.*/||' |
             sort | uniq -c | awk '{ print $2, $1 }')
fi

for file in tests/{unit,golden,error,property,differential,gpu}/*.cc; do
  if [ ! -f "$file" ]; then continue; fi
  stem=$(basename "$file" .cc)
  if ! grep -qE "^namespace [a-z_:]+::${stem}_test \\{" "$file"; then
    breach "$file: its names lie in no namespace ..::${stem}_test"
  fi
done

if [ "$breaches" != 0 ]; then
  echo "$breaches breaches of the rules of the tree"
  exit 1
fi
echo "the tree keeps its rules"
