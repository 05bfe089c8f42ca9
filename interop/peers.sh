#!/usr/bin/env bash
# The benchmark against real brokers: the scripts that start them, in every configuration, and the drivers that speak to
# them. Arguments go to `go test`.
#
# Needs Debian's rabbitmq-server and mosquitto (installed if this is root's), Java 17 and Maven.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for script in bench/peers/*.sh; do
  [ ! -x "$script" ] || "$script" install
done
# The packages that have such tests, and nothing of the others.
mapfile -t packages < <(grep -rl --include='*_test.go' '^//go:build.*\<peers\>' bench internal | xargs -n 1 dirname | sort -u)
exec go test -tags peers -count=1 -timeout 8m "$@" "${packages[@]/#/./}"
