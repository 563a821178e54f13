#!/usr/bin/env bash
# Whether the units of deploy/ are sound, as closed as docs/services.md says, and open enough for a coordinator:
# units_test.sh SHOAL_COORDINATOR. Skipped where the tools of systemd are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
coordinator=$(realpath "$1")
if ! command -v systemd-analyze >/dev/null; then
  echo "skipped: no systemd-analyze"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  echo "$*" >&2
  failed=1
}

for unit in shoal-coordinator shoal-agent; do
  file=deploy/$unit.service
  # The programs need not be installed here, and no manual.
  sed 's|^ExecStart=[a-z-]*|ExecStart=/bin/true|; /^Documentation=/d' "$file" >"$work/$unit.service"
  said=$(systemd-analyze verify --man=no "$work/$unit.service" 2>&1 || true)
  if grep -q "$unit" <<<"$said"; then fail "$file: $said"; fi
  figure=$(systemd-analyze security --no-pager --offline=true "$file" |
    sed -nE 's/.*exposure level for [^:]*: ([0-9.]+) .*/\1/p')
  documented=$(sed -nE "s/^\| \`$unit\` \| ([0-9.]+) \|.*/\1/p" docs/services.md)
  if [[ $figure != "$documented" ]]; then fail "$file: $figure, docs/services.md says $documented"; fi
  if awk -v f="$figure" 'BEGIN {exit !(f >= 2.0)}'; then fail "$file: $figure is not below 2.0"; fi
done

# calls_of GROUP: the system calls of a group of systemd's, with those of the groups in it.
calls_of() {
  local name
  while IFS= read -r name; do
    if [[ $name == @* ]]; then calls_of "$name"; else echo "$name"; fi
  done < <(systemd-analyze syscall-filter --no-pager "$1" | sed -nE 's/^ +([@a-z0-9_-]+)$/\1/p')
}
if ! strace -o /dev/null true 2>/dev/null; then
  echo "without strace here: the system calls of a coordinator were not looked at"
  exit $failed
fi
strace -f -qq -o "$work/trace" "$coordinator" --data-dir "$work/data" --http 127.0.0.1:0 --grpc 127.0.0.1:0 \
  --address-file "$work/address" 2>"$work/log" &
traced=$!
for ((tries = 0; tries < 600; ++tries)); do
  if [[ -s $work/address ]] || ! kill -0 $traced 2>/dev/null; then break; fi
  sleep 0.1
done
if [[ ! -s $work/address ]]; then
  cat "$work/log" >&2
  kill $traced 2>/dev/null || true
  fail "the coordinator did not start"
else
  http=$(sed -nE 's/.*"http":"([^"]+)".*/\1/p' "$work/address")
  pid=$(sed -nE 's/.*"pid":([0-9]+).*/\1/p' "$work/address")
  exec {probe}<>"/dev/tcp/${http%:*}/${http##*:}"
  printf 'GET /readyz HTTP/1.0\r\n\r\n' >&$probe
  head -1 <&$probe | grep -q ' 200 ' || fail "/readyz does not answer 200"
  exec {probe}>&-
  kill -TERM "$pid"
  wait $traced || fail "the coordinator ended with $?"
fi
{
  calls_of @system-service | sort -u |
    comm -23 - <({ calls_of @privileged && calls_of @resources; } | sort -u)
  # The kernel restarts an interrupted call by this one; systemd always lets it through.
  echo restart_syscall
  # SQLite gives new files to the owner of the database, as root alone.
  if ((EUID == 0)); then echo fchown; fi
} | sort -u >"$work/may"
sed -nE 's/^[0-9]+ +([a-z0-9_]+)\(.*/\1/p' "$work/trace" | sort -u >"$work/does"
while IFS= read -r call; do fail "deploy/shoal-coordinator.service refuses $call"; done \
  < <(comm -23 "$work/does" "$work/may")
if [[ $(wc -l <"$work/does") -lt 20 ]]; then fail "strace saw next to nothing"; fi
exit $failed
