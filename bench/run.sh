#!/usr/bin/env bash
# Measures Godwit beside Apache Kafka and writes the report. What `make bench-table` calls.
#
#   bench/run.sh                  everything, about half an hour; the report goes to docs/benchmarks
#   bench/run.sh --quick          try everything, under three minutes on a quiet machine, no report
#   bench/run.sh ARGS...          further arguments of bench/sidebyside; see --help
#
# Needs Go, Java 17 and Maven, and 40 GiB of free disk (6 GiB with --quick). Whatever is started is
# stopped by its pid, also on an error or an interrupt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repo=$PWD

quick=
report=
for a in "$@"; do
  case $a in
    --quick | -quick) quick=1 ;;
    --report | --report=* | -report | -report=*) report=given ;;
    -h | -help | --help) exec go run ./bench/sidebyside --help ;;
  esac
done

out=$repo/.cache/bench/bin
mkdir -p "$out"
echo "building" >&2
CGO_ENABLED=0 go build -trimpath -o "$out/sidebyside" ./bench/sidebyside
[ -x bin/godwit ] || CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/godwit ./cmd/godwit
echo "Apache Kafka's artifacts" >&2
bench/peers/kafka.sh install

args=(--repo "$repo" "$@")
if [ -z "$quick" ] && [ -z "$report" ]; then
  args+=(--report "docs/benchmarks/$(date +%F)-side-by-side.md")
fi
# As this shell's successor: signals reach it directly.
exec "$out/sidebyside" "${args[@]}"
