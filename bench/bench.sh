#!/usr/bin/env bash
# Measures Godwit beside other brokers, each started on loopback by its script in bench/peers, with `godwit bench run`.
# What `make bench` calls.
#
#   bench/bench.sh [--peers NAME,...] [--configs NAME,...] [--scratch DIR] [-- SCENARIO... and flags of godwit bench run]
#
#   --peers      of kafka, rabbitmq, nats, mosquitto and godwit; all, if unsaid
#   --configs    configurations of every peer that has them; default,synced if unsaid
#   --scratch    where the brokers keep their data, on a disk; in .cache/bench if unsaid
#
# Without a scenario it runs throughput, latency, scaling-latency and benefits; `bin/godwit bench list` has more. The report goes to
# .cache/bench/reports/TIME unless --out says otherwise. GODWIT_PEER_MEMORY=BYTES limits the memory of each broker, which
# makes a backlog bigger than memory soon written: bench/peers/peer.sh tells how.
#
# On an error or an interrupt, too, everything that was started is stopped, by its pid. What was measured until an
# interrupt is kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

peers=kafka,rabbitmq,nats,mosquitto,godwit
configs=default,synced
scratch=$PWD/.cache/bench

die() {
  echo "bench.sh: $*" >&2
  exit 1
}

line="bench/bench.sh $*"
while [ $# -gt 0 ]; do
  case $1 in
    --peers) peers=${2:?} && shift 2 ;;
    --configs) configs=${2:?} && shift 2 ;;
    --scratch) scratch=${2:?} && shift 2 ;;
    --) shift && break ;;
    *) sed -n '2,/^set/{/^#/!d; s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
  esac
done

case ${1:--} in -*) set -- throughput latency scaling-latency benefits "$@" ;; esac
case " $* " in
  *" --out"[\ =]*) ;;
  *) set -- "$@" --out ".cache/bench/reports/$(date -u +%FT%H-%M-%S)" ;;
esac

IFS=, read -r -a peers <<<"$peers"
IFS=, read -r -a configs <<<"$configs"

make -s build
for p in "${peers[@]}"; do
  [ -x "bench/peers/$p.sh" ] || die "there is no bench/peers/$p.sh"
  echo "installing $p" >&2
  "bench/peers/$p.sh" install
done

mkdir -p "$scratch"
scratch=$(mktemp -d "$(cd "$scratch" && pwd)/run.XXXXXX")
started=() # "PEER DIR"
child=

# finish stops what was started. Data goes; what the brokers said stays if something failed.
finish() {
  local code=$? one
  trap - EXIT
  trap '' INT TERM HUP # not in the middle of this
  for one in "${started[@]}"; do
    "bench/peers/${one%% *}.sh" stop "${one#* }" || code=1
    rm -rf "${one#* }/data"
  done
  if [ "$code" -eq 0 ]; then rm -rf "$scratch"; else echo "what the brokers said is in $scratch" >&2; fi
  exit "$code"
}

# interrupt has the measurement write its report, or ends at once if none runs yet.
interrupt() {
  [ -z "$child" ] || kill -INT "$child" 2>/dev/null || true
  [ -n "$child" ] || exit 130
}
trap finish EXIT
trap interrupt INT TERM HUP

targets=(--command "$line")
for p in "${peers[@]}"; do
  for c in "${configs[@]}"; do
    described=$("bench/peers/$p.sh" configs | sed -n "s/^$c //p")
    # Not what has no such configuration, and not what is only another name of one that is measured anyway.
    [ -n "$described" ] || continue
    [[ $described != "same as "* || ! " ${configs[*]} " = *" ${described#same as } "* ]] || continue
    echo "starting $p, $c" >&2
    started+=("$p $scratch/$p-$c")
    url=$("bench/peers/$p.sh" start "$scratch/$p-$c" "$c") || die "$p ($c) does not start"
    targets+=(--target "$url" --command "bench/peers/$p.sh start \$SCRATCH/$p-$c $c")
  done
done
[ ${#started[@]} -gt 0 ] || die "none of ${peers[*]} has a configuration ${configs[*]}"

# In a process group of its own, so that an interrupt reaches it once, from here.
set -m
bin/godwit bench run "$@" "${targets[@]}" &
child=$!
set +m
code=0
while kill -0 "$child" 2>/dev/null; do
  wait "$child" && code=0 || code=$?
done
child=
exit "$code"
