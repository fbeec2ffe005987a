#!/usr/bin/env bash
# Prints the lines of code by module, for the code files that git tracks.
#
#   scripts/size.sh            a table: each module, then the sums
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git ls-files -z -- '*.h' '*.cpp' '*.cu' '*.cuh' '*.py' '*.js' '*.mjs' '*.css' '*.html' '*.sh' | xargs -0 awk '
  FNR == 1 {
    count = split(FILENAME, part, "/")
    module = count > 1 ? part[1] : "(root)"
    if (part[1] == "keel" || part[1] == "libs") module = part[1] "/" part[2]
    if (part[1] == "libs" && part[3] == "tests") module = "tests"
  }
  { lines[module]++ }
  END {
    for (module in lines) print lines[module], module
  }' | sort -k2 | awk '
  { printf "%7d  %s\n", $1, $2; total += $1 }
  $2 ~ /^(keel|libs)\// || $2 ~ /^(cli|python|sandbox)$/ { product += $1 }
  END {
    printf "%7d  keel + libs + cli + python + sandbox\n%7d  total\n", product, total
  }'
