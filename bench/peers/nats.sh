#!/usr/bin/env bash
# NATS server, from its Go module. What it can be told is in peer.sh.

peer=nats
port_names=(nats)
. "$(dirname "${BASH_SOURCE[0]}")/peer.sh"

version=2.15.2
server=$cache/nats-server-$version

peer_install() {
  [ ! -x "$server" ] || return 0
  need go "Go (go)"
  mkdir -p "$cache/bin"
  (cd / && CGO_ENABLED=0 GOBIN=$cache/bin GOFLAGS="" go install -trimpath "github.com/nats-io/nats-server/v2@v$version") >&2
  mv "$cache/bin/nats-server" "$server"
}

peer_versions() {
  [ -x "$server" ] || die "not installed: run $0 install"
  echo "NATS server $version"
}

peer_configs() {
  echo "default JetStream's defaults: a message is acknowledged when it is written, and synced every two minutes"
  echo "synced JetStream with sync_interval: always: every message is synced before it is acknowledged"
  echo "core core NATS: delivered to those who listen, nothing is kept"
}

peer_prepare() {
  {
    echo "host: 127.0.0.1"
    echo "port: ${port[nats]}"
    case $config in
      default) echo "jetstream { store_dir: \"$data\" }" ;;
      synced) echo "jetstream { store_dir: \"$data\", sync_interval: always }" ;;
    esac
  } >"$dir/nats.conf"
}

peer_run() { exec "$server" -c "$dir/nats.conf"; }

peer_ready() { said 'Server is ready' && listens "$1" "${port[nats]}"; }

peer_url() {
  local scheme=jetstream
  [ "$config" != core ] || scheme=nats
  echo "$scheme://127.0.0.1:${port[nats]}"
}

main "$@"
