#!/usr/bin/env bash
# Eclipse Mosquitto, from Debian. What it can be told is in peer.sh.
#
# Mosquitto's defaults (not those of Debian's service, which saves every half hour) but for the address, and that anybody
# may connect. A session that is away keeps 1,000 messages at most, as by default.

peer=mosquitto
port_names=(mqtt)
. "$(dirname "${BASH_SOURCE[0]}")/peer.sh"

PATH=$PATH:/usr/sbin

peer_install() { debian mosquitto; }

peer_versions() {
  local version
  version=$(debian_version mosquitto) || die "not installed: run $0 install"
  echo "Mosquitto $version"
}

peer_configs() {
  echo "default nothing is on disk: a message is acknowledged from memory"
  echo "unlimited as default, but nothing is dropped: max_queued_messages 0"
  echo "synced the whole state is saved and synced after every message, the most it offers, but after the acknowledgement"
}

peer_prepare() {
  {
    echo "listener ${port[mqtt]} 127.0.0.1"
    echo "allow_anonymous true"
    [ "$(id -u)" -ne 0 ] || echo "user root" # it would become one that may not enter this directory
    [ "$config" != unlimited ] || echo "max_queued_messages 0"
    if [ "$config" = synced ]; then
      echo "persistence true"
      echo "persistence_location $data"
      echo "autosave_on_changes true"
      echo "autosave_interval 1"
    fi
  } >"$dir/mosquitto.conf"
}

peer_run() { exec mosquitto -c "$dir/mosquitto.conf"; }

peer_ready() { said ' running$' && listens "$1" "${port[mqtt]}"; }

peer_url() { echo "mqtt://127.0.0.1:${port[mqtt]}"; }

main "$@"
