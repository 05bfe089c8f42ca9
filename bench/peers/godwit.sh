#!/usr/bin/env bash
# Godwit itself, GODWIT_BIN or bin/godwit. What it can be told is in peer.sh.

peer=godwit
port_names=(kafka http)
. "$(dirname "${BASH_SOURCE[0]}")/peer.sh"

server=${GODWIT_BIN:-$repo/bin/godwit}

# program is what runs in $dir, whatever GODWIT_BIN is by now, or else what would.
program() { cat "${dir:-}/program" 2>/dev/null || echo "$server"; }

peer_install() {
  [ ! -x "$server" ] || return 0
  [ -z "${GODWIT_BIN:-}" ] || die "there is no program $GODWIT_BIN"
  need go "Go (go)"
  make -s -C "$repo" build >&2
}

peer_versions() {
  [ -x "$(program)" ] || die "not installed: run $0 install"
  "$(program)" version
}

peer_configs() {
  echo "default a message is synced before it is acknowledged"
  echo "synced same as default"
  echo "os durability=os: a message is acknowledged when the operating system has it"
}

peer_prepare() {
  [ -x "$server" ] || die "not installed: run $0 install"
  realpath "$server" >"$dir/program"
}

peer_run() {
  local durability=sync
  [ "$config" != os ] || durability=os
  exec "$(program)" serve --data "$data" --durability "$durability" \
    --kafka "127.0.0.1:${port[kafka]}" --http "127.0.0.1:${port[http]}"
}

peer_ready() { said 'msg=ready' && listens "$1" "${port[kafka]}"; }

peer_url() { echo "kafka://127.0.0.1:${port[kafka]}"; }

main "$@"
