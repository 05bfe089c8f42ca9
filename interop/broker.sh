# Sourced by the scripts beside it: where things are, and a broker to test. Not a program.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
built=$root/.cache/interop
godwit_pid=
godwit_dir=

die() {
	echo "interop: $*" >&2
	exit 2
}

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_broker sets BROKER. If it is set already, that broker is the one to test; otherwise Godwit is built and started on
# free ports, with its data in a fresh directory and every limit as it is by default.
start_broker() {
	[ -z "${BROKER:-}" ] || return 0
	local binary=${GODWIT:-$built/godwit}
	mkdir -p "$built"
	[ -n "${GODWIT:-}" ] || (cd "$root" && CGO_ENABLED=0 go build -o "$built/godwit" ./cmd/godwit)
	godwit_dir=$(mktemp -d "${TMPDIR:-/tmp}/godwit-interop.XXXXXX")
	BROKER=127.0.0.1:$(free_port)
	"$binary" serve --data "$godwit_dir/data" --kafka "$BROKER" --http 127.0.0.1:0 >"$built/godwit.log" 2>&1 &
	godwit_pid=$!
	trap stop_broker EXIT
	trap 'exit 130' INT TERM
	local i
	for ((i = 0; i < 300; i++)); do
		if grep -q ready "$built/godwit.log"; then
			echo "Godwit (process $godwit_pid) listens on $BROKER"
			return 0
		fi
		kill -0 "$godwit_pid" 2>/dev/null || break
		sleep 0.1
	done
	cat "$built/godwit.log" >&2
	die "Godwit did not become ready"
}

# broker_survived fails if the Godwit that start_broker started has ended or has said that it panicked.
broker_survived() {
	[ -n "$godwit_pid" ] || return 0
	if ! kill -0 "$godwit_pid" 2>/dev/null || grep -q 'panic' "$built/godwit.log"; then
		echo "interop: Godwit ended or panicked; the end of $built/godwit.log:" >&2
		tail -n 40 "$built/godwit.log" >&2
		return 1
	fi
}

stop_broker() {
	if [ -n "$godwit_pid" ]; then
		kill "$godwit_pid" 2>/dev/null || true
		wait "$godwit_pid" 2>/dev/null || true
		godwit_pid=
	fi
	[ -z "$godwit_dir" ] || rm -rf "$godwit_dir"
}
