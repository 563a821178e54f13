#!/usr/bin/env bash
# The all-reduce over lines of a given speed: one network namespace per process, each behind a token bucket
# (tc tbf) for what it sends and one for what it receives, joined by a bridge in a namespace of its own, so the
# network of this host is not touched. First three equal lines of 200 Mbit/s and every dense codec, then four
# unequal ones with parts that follow them, equal parts beside. Always takes down what it set up. Needs root and
# a finished build. --equal: without the unequal ones. Further arguments go to both calls of `shoal-bench
# all-reduce`: --repeats N, --json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bench=$PWD/build/bin/shoal-bench
prefix=shoal-line-$$
only_equal=
if [[ ${1:-} == --equal ]]; then
  only_equal=1
  shift
fi
made=()

tear_down() {
  for namespace in "${made[@]}"; do ip netns delete "$namespace" 2>/dev/null || true; done
  made=()
}
trap tear_down EXIT
trap 'exit 130' INT TERM

if ((EUID != 0)) || ! command -v tc >/dev/null; then
  echo "error: lines need root and tc (package iproute2)" >&2
  exit 1
fi

add_namespace() {
  ip netns add "$1"
  made+=("$1")
  ip -n "$1" link set lo up
}

limit() { # NAMESPACE DEVICE MBIT
  ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "${3}mbit" burst 128kb latency 50ms
}

# One namespace per argument, a rate in Mbit/s each; sets namespaces and hosts.
set_up() {
  local number=0 rate
  namespaces=() hosts=()
  add_namespace "$prefix-hub"
  ip -n "$prefix-hub" link add bridge type bridge
  ip -n "$prefix-hub" link set bridge up
  for rate in "$@"; do
    number=$((number + 1))
    add_namespace "$prefix-$number"
    ip link add name line netns "$prefix-$number" type veth peer name "port$number" netns "$prefix-hub"
    ip -n "$prefix-hub" link set "port$number" master bridge up
    ip -n "$prefix-$number" address add "10.77.0.$number/24" dev line
    ip -n "$prefix-$number" link set line up
    limit "$prefix-$number" line "$rate"
    limit "$prefix-hub" "port$number" "$rate"
    namespaces+=("$prefix-$number")
    hosts+=("10.77.0.$number")
  done
}

joined() {
  local IFS=,
  echo "$*"
}

run() { # RATES... -- ARGUMENTS...
  local rates=()
  while [[ $1 != -- ]]; do
    rates+=("$1")
    shift
  done
  shift
  set_up "${rates[@]}"
  "$bench" all-reduce --processes "${#rates[@]}" --values "$values" \
    --namespaces "$(joined "${namespaces[@]}")" --hosts "$(joined "${hosts[@]}")" --mbit "$(joined "${rates[@]}")" "$@"
  tear_down
}

values=$((8 << 20)) # 32 MiB of fp32
run 200 200 200 -- --codecs all "$@"
if [[ -n $only_equal ]]; then exit 0; fi
values=$((2 << 20))
run 25 50 100 200 -- --codecs fp32,int8 "$@"
