#!/usr/bin/env bash
# franz-go's own tests of its client against Godwit, all but those in franzgo-excluded.txt.
#   interop/franzgo.sh [--soak] [-test.run PATTERN and other arguments of a Go test binary]
# --soak sends 50,000 records through each pipeline instead of 10,000. BROKER and GODWIT: see run.sh.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/broker.sh"

records=10000
if [ "${1:-}" = --soak ]; then
	records=50000
	shift
fi
dir=$built/franzgo
package=github.com/twmb/franz-go/pkg/kgo

# A module of its own, so that the tests get the versions that franz-go was released with.
build() {
	mkdir -p "$dir"
	cat >"$dir/go.mod.new" <<-'EOF'
		module franzgo

		go 1.26.0

		require (
			github.com/twmb/franz-go v1.22.3
			github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
		)
	EOF
	if [ -x "$dir/kgo.test" ] && cmp -s "$dir/go.mod.new" "$dir/go.mod.made"; then
		return
	fi
	cp "$dir/go.mod.new" "$dir/go.mod"
	printf 'package franzgo\n\nimport (\n\t_ "github.com/twmb/franz-go/pkg/kfake"\n\t_ "%s"\n)\n' "$package" >"$dir/franzgo.go"
	(cd "$dir" && go mod tidy 2>tidy.log && go test -c -o kgo.test "$package") || {
		cat "$dir/tidy.log" >&2
		die "cannot build franz-go's tests"
	}
	mv "$dir/go.mod.new" "$dir/go.mod.made"
}

# excluded is the list as one pattern for -test.skip: alternatives, each with every part anchored.
excluded() {
	awk '!/^#/ && NF { gsub("/", "$/^", $1); printf "%s^%s$", sep, $1; sep = "|" }' "$root/interop/franzgo-excluded.txt"
}

build
start_broker
cd "$(cd "$dir" && go list -f '{{.Dir}}' "$package")" # one test reads the sources
status=0
KGO_LOG_LEVEL=none KGO_SEEDS=$BROKER KGO_TEST_RF=1 KGO_TEST_RECORDS=$records \
	"$dir/kgo.test" -test.v -test.timeout 20m -test.skip "$(excluded)" "$@" >"$built/franzgo.log" 2>&1 || status=$?
grep -E '^ *--- (FAIL|SKIP)|^panic|^fatal' "$built/franzgo.log" || true
passed=$(grep -cE '^ *--- PASS' "$built/franzgo.log" || true)
failed=$(grep -cE '^ *--- FAIL' "$built/franzgo.log" || true)
skipped=$(grep -cE '^ *--- SKIP' "$built/franzgo.log" || true)
if [ "$skipped" -gt 0 ]; then
	echo "A skipped test belongs into franzgo-excluded.txt with its reason, or Godwit lacks something."
	status=1
fi
broker_survived || status=1
[ "$status" -eq 0 ] || echo "The output is in $built/franzgo.log"
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
	failed=1
fi
echo "$passed passed, $((failed + skipped)) failed"
exit "$status"
