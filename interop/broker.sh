# Sourced by the scripts beside it: where things are, and a broker to test. Not a program.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
built=$root/.cache/interop

die() {
	echo "interop: $*" >&2
	exit 2
}

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_broker sets BROKER. If it is set already, that broker is the one to test; otherwise Godwit is built and started on
# free ports, with its data in a fresh directory and every limit as it is by default. GODWIT_DIR is then that directory.
start_broker() {
	[ -z "${BROKER:-}" ] || return 0
	mkdir -p "$built"
	if [ -z "${GODWIT:-}" ]; then
		(cd "$root" && CGO_ENABLED=0 go build -o "$built/godwit" ./cmd/godwit)
		GODWIT=$built/godwit
	fi
	GODWIT_DIR=$(mktemp -d "${TMPDIR:-/tmp}/godwit-interop.XXXXXX")
	BROKER=127.0.0.1:$(free_port)
	export GODWIT GODWIT_DIR BROKER
	trap stop_broker EXIT
	trap 'exit 130' INT TERM
	: >"$built/godwit.log"
	launch
	echo "Godwit (process $(godwit_pid)) listens on $BROKER"
}

godwit_pid() { cat "$GODWIT_DIR/pid" 2>/dev/null; }
godwit_runs() { kill -0 "$(godwit_pid)" 2>/dev/null; }

# launch starts Godwit on GODWIT_DIR and BROKER and waits until it says that it is ready.
launch() {
	local before i
	before=$(grep -c 'msg=ready' "$built/godwit.log" || true)
	"$GODWIT" serve --data "$GODWIT_DIR/data" --kafka "$BROKER" --http 127.0.0.1:0 >>"$built/godwit.log" 2>&1 &
	disown $! # a SIGKILL is no news to report
	echo $! >"$GODWIT_DIR/pid"
	for ((i = 0; i < 300; i++)); do
		[ "$(grep -c 'msg=ready' "$built/godwit.log" || true)" -eq "$before" ] || return 0
		godwit_runs || break
		sleep 0.1
	done
	cat "$built/godwit.log" >&2
	die "Godwit did not become ready"
}

# halt SIGNAL ends Godwit and waits until it is gone.
halt() {
	local i
	kill -s "$1" "$(godwit_pid)" 2>/dev/null || true
	for ((i = 0; i < 300; i++)); do
		godwit_runs || return 0
		sleep 0.1
	done
	kill -s KILL "$(godwit_pid)" 2>/dev/null || true
	die "Godwit did not end within 30 s of SIG$1"
}

# broker_survived fails if the Godwit that start_broker started has ended by itself, or complains in its log of more than
# a client that it turned away.
broker_survived() {
	[ -n "${GODWIT_DIR:-}" ] || return 0
	if ! godwit_runs || grep -qE 'level=ERROR|panic| failed' "$built/godwit.log"; then
		echo "interop: Godwit ended or complains; the end of $built/godwit.log:" >&2
		tail -n 40 "$built/godwit.log" >&2
		return 1
	fi
}

stop_broker() {
	[ -z "${GODWIT_DIR:-}" ] || {
		halt TERM
		rm -rf "$GODWIT_DIR"
	}
}
