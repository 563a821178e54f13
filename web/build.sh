#!/usr/bin/env bash
# Builds the dashboard into web/dist, which is committed, and holds it to its size budgets. Needs npm;
# nothing else in the repository does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [[ ! -d node_modules || package-lock.json -nt node_modules ]]; then
  PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --no-audit --no-fund
fi
npx tsc --noEmit
npx vite build --logLevel warn
# The licenses of what the bundle contains travel with it; wouter-preact is in the public domain.
for package in preact @preact/signals @preact/signals-core uplot; do
  printf '== %s\n\n' "$package"
  sed 's/[[:blank:]]*$//' "node_modules/$package"/LICENSE*
  echo
done >dist/licenses.txt
cmake -DWRITE=ON -P digest.cmake

gzipped() { # FILE…: bytes of all of them together, each compressed on its own
  local file sum=0
  for file in "$@"; do sum=$((sum + $(gzip --best --no-name --stdout "$file" | wc -c))); done
  echo "$sum"
}
status=0
budget() { # NAME LIMIT FILE…
  local name=$1 limit=$2 size
  shift 2
  size=$(gzipped "$@")
  printf '%-12s %7d of %7d bytes\n' "$name" "$size" "$limit"
  if ((size > limit)); then
    echo "error: $name is over its budget" >&2
    status=1
  fi
}
mapfile -t everything < <(find dist -type f ! -name '.*')
budget javascript 92160 dist/assets/*.js
budget css 12288 dist/assets/*.css
budget everything 307200 "${everything[@]}"
if grep -rnoE "https?://[a-z0-9.-]+" dist --include='*.html' --include='*.css'; then
  echo "error: the page names another origin" >&2
  status=1
fi
exit "$status"
