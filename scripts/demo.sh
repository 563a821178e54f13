#!/usr/bin/env bash
# Four agents train one byte-level model on the King James Bible, on this machine, in a few minutes; with
# --pipeline the model is cut into two stages over unequal agents, one of which is killed and replaced on
# the way. Drives the command line as a person would; everything it makes lies in build/demo. Without --keep
# the cluster is stopped at the end, and always on Ctrl-C. Expects a finished build in build/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

keep=false
job=kjv
unequal=()
for argument in "$@"; do
  case $argument in
    --keep) keep=true ;;
    --pipeline)
      job=pipeline
      unequal=(--speeds "1,1,0.5,0.25")
      ;;
    *)
      echo "usage: ./dev demo [--pipeline] [--keep]" >&2
      exit 2
      ;;
  esac
done

folder=$PWD/build/demo
cluster=$folder/cluster
text=$folder/kjv.txt
shoal=$PWD/build/bin/shoal
say() { printf '\n%s\n' "$*"; }

running=false
spare=
stop_cluster() {
  if [[ -n $spare ]]; then kill "$spare" 2>/dev/null || true; fi
  spare=
  if $running; then
    running=false
    "$shoal" down --data-dir "$cluster" || true
  fi
}
trap stop_cluster EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# A text field of up.json, and the process of one agent.
up_field() { sed -n "s/^ *\"$1\": \"\(.*\)\",*\$/\1/p" "$cluster/up.json" | head -n 1; }
agent_pid() { awk -v name="\"agent-$1\"" '$0 ~ name { found = 1 } found && /"pid"/ { gsub(/[^0-9]/, ""); print; exit }' "$cluster/up.json"; }

rounds_committed() {
  "$shoal" job get "$job" --json | awk -F'[:,]' '/"rounds_committed"/ { gsub(/ /, "", $2); print $2; exit }'
}

wait_for_round() {
  local limit=$((SECONDS + 600))
  until (($(rounds_committed) >= $1)); do
    if ((SECONDS > limit)); then
      echo "error: round $1 was not committed within 600 s; see $cluster/logs" >&2
      exit 1
    fi
    sleep 1
  done
}

# Takes an agent away without a word, and brings another one.
replace_an_agent() {
  wait_for_round 2
  say "The stages and their links:"
  "$shoal" job topology "$job"
  say "agent-2 is killed; a new agent-5 joins:"
  kill -KILL "$(agent_pid 2)"
  "$PWD/build/bin/shoal-agent" --coordinator "$(up_field grpc)" --join-token "$(up_field token_file)" \
    --enrol "$(up_field http | sed 's|.*://||')" --data-dir "$cluster/agents/5" --name agent-5 --threads 1 --devices cpu:1 --host 127.0.0.1 \
    --data-root "$PWD" --peer-ports 0 >"$cluster/logs/agent-5.log" 2>&1 &
  spare=$!
}

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
"$shoal" up --agents 4 "${unequal[@]}" --detach --http 127.0.0.1:0 --grpc 127.0.0.1:0 --data-dir "$cluster"
url=$(up_field http)
export SHOAL_ADDR=$url

if [[ $job == pipeline ]]; then
  say "What the coordinator would do with examples/pipeline.toml:"
  "$shoal" job plan examples/pipeline.toml
fi

say "Training examples/$job.toml. In a browser: $url/jobs/$job"
started=$SECONDS
"$shoal" job submit "examples/$job.toml" >/dev/null
if [[ $job == pipeline ]]; then replace_an_agent; fi
"$shoal" job watch "$job"
seconds=$((SECONDS - started))

loss=$("$shoal" job get "$job" --json | awk -F'[:,]' '/"validation_loss"/ { gsub(/ /, "", $2); print $2; exit }')
bits=$(awk -v nats="$loss" 'BEGIN { printf "%.3f", nats / log(2) }')
say "Trained for $seconds s. Validation loss: $(awk -v x="$loss" 'BEGIN { printf "%.3f", x }') nats = $bits bits per byte"

say "Traffic of the rounds:"
"$shoal" round ls "$job" | sed -n '1p;$p'

checkpoint=$("$shoal" checkpoint ls "$job" | awk '/ final / { print $1 }' | tail -n 1)
"$shoal" checkpoint download "$checkpoint" -o "$folder/checkpoint" >/dev/null 2>&1
say "The model continues \"In the beginning\":"
"$shoal" generate --checkpoint "$folder/checkpoint" --prompt "In the beginning" --tokens 300 \
  --temperature 0.7 --seed 1

say "The checkpoint: $folder/checkpoint  (safetensors and config.json, as Hugging Face has them)"
if $keep; then
  running=false
  cat <<END

The cluster still runs: $url
  export SHOAL_ADDR=$url
  build/bin/shoal job ls
  build/bin/shoal round ls $job
  build/bin/shoal down --data-dir $cluster        stops it
END
else
  stop_cluster
  cat <<END

How to continue:
  ./dev demo --keep                               the same, and the cluster stays for you to look at
  ./dev demo --pipeline                           a model in two stages over unequal agents
  ./dev up --agents 4                             a cluster of your own, at http://127.0.0.1:7070
  build/bin/shoal job submit examples/kjv.toml    the same job on it
README.md shows a first job of your own.
END
fi
