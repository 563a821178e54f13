#!/usr/bin/env bash
# Whether docs/alerts.md tells what to do about every alert of monitoring/alerts.yml, and every kind of incident
# that the coordinator counts (coordinator/meters/meters.h), no more and no less.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# section HEADING: the names in the headings below it.
section() {
  awk -v heading="## $1" '/^## /{here = ($0 == heading)} here && /^### `/' docs/alerts.md |
    grep -oE '[A-Za-z_]+' | sort
}

alerts=$(sed -nE 's/.*- alert: *([A-Za-z]+).*/\1/p' monitoring/alerts.yml | sort)
[[ -n $alerts ]]
diff <(section 'When an alert fires') <(echo "$alerts") || {
  echo "docs/alerts.md (<) and monitoring/alerts.yml (>) differ" >&2
  exit 1
}

incidents=$(sed -n '/kIncidents = {/,/};/p' coordinator/meters/meters.h | grep -oE 'event_kind::k[A-Za-z]+' |
  sed -E 's/.*::k//; s/([A-Z])/_\L\1/g; s/^_//' | sort)
[[ -n $incidents ]]
diff <(section 'What events warn of') <(echo "$incidents") || {
  echo "docs/alerts.md (<) and kIncidents of coordinator/meters/meters.h (>) differ" >&2
  exit 1
}
