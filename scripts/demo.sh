#!/usr/bin/env bash
# Four agents train one byte-level model on the King James Bible, on this machine, in a few minutes. Drives
# the command line as a person would; everything it makes lies in build/demo. Without --keep the cluster is
# stopped at the end, and always on Ctrl-C. Expects a finished build in build/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

keep=false
case ${1:-} in
  '') ;;
  --keep) keep=true ;;
  *)
    echo "usage: ./dev demo [--keep]" >&2
    exit 2
    ;;
esac

folder=$PWD/build/demo
cluster=$folder/cluster
text=$folder/kjv.txt
shoal=$PWD/build/bin/shoal
say() { printf '\n%s\n' "$*"; }

running=false
stop_cluster() {
  if $running; then
    running=false
    "$shoal" down --data-dir "$cluster" || true
  fi
}
trap stop_cluster EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p "$folder"
if [[ ! -s $text ]]; then
  if ! command -v bible >/dev/null; then
    echo "error: the text comes from Debian's bible-kjv package, which is not installed" >&2
    echo "hint: run ./dev deps" >&2
    exit 1
  fi
  bible -f 'gen1:1-rev22:21' >"$text.part"
  mv "$text.part" "$text"
fi

# A run that was killed may have left a cluster; a fresh one starts from an empty folder.
"$shoal" down --data-dir "$cluster" >/dev/null 2>&1 || true
rm -rf "$cluster" "$folder/checkpoint"

say "A coordinator and four agents on this machine:"
running=true
"$shoal" up --agents 4 --detach --http 127.0.0.1:0 --grpc 127.0.0.1:0 --data-dir "$cluster"
url=$(sed -n 's/^ *"http": "\(.*\)",*$/\1/p' "$cluster/up.json" | head -n 1)
export SHOAL_ADDR=$url

say "Training examples/kjv.toml. In a browser: $url/jobs/kjv"
started=$SECONDS
"$shoal" job submit examples/kjv.toml >/dev/null
"$shoal" job watch kjv
seconds=$((SECONDS - started))

loss=$("$shoal" job get kjv --json | awk -F'[:,]' '/"validation_loss"/ { gsub(/ /, "", $2); print $2; exit }')
bits=$(awk -v nats="$loss" 'BEGIN { printf "%.3f", nats / log(2) }')
say "Trained for $seconds s. Validation loss: $(awk -v x="$loss" 'BEGIN { printf "%.3f", x }') nats = $bits bits per byte"

say "What the rounds moved:"
"$shoal" round ls kjv | sed -n '1p;$p'

checkpoint=$("$shoal" checkpoint ls kjv | awk '/ final / { print $1 }' | tail -n 1)
"$shoal" checkpoint download "$checkpoint" -o "$folder/checkpoint" >/dev/null 2>&1
say "The model goes on from \"In the beginning\":"
"$shoal" generate --checkpoint "$folder/checkpoint" --prompt "In the beginning" --tokens 300 \
  --temperature 0.7 --seed 1

say "The checkpoint: $folder/checkpoint  (model.safetensors and config.json, as Hugging Face has them)"
if $keep; then
  running=false
  cat <<END

The cluster is still there: $url
  export SHOAL_ADDR=$url
  build/bin/shoal job ls
  build/bin/shoal round ls kjv
  build/bin/shoal down --data-dir $cluster        stops it
END
else
  stop_cluster
  cat <<END

How to go on:
  ./dev demo --keep                               the same, and the cluster stays for you to look at
  ./dev up --agents 4                             a cluster of your own, at http://127.0.0.1:7070
  build/bin/shoal job submit examples/kjv.toml    the same job on it
README.md shows a first job of your own.
END
fi
