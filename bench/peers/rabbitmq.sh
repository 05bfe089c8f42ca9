#!/usr/bin/env bash
# RabbitMQ, from Debian. What it can be told is in peer.sh.
#
# RabbitMQ's defaults but for addresses and directories; no plugins. Flow control begins, as by default, when it uses 40 % of
# the machine's memory: of its limit, if it has one. It has an epmd of its own.

peer=rabbitmq
port_names=(amqp distribution epmd)
. "$(dirname "${BASH_SOURCE[0]}")/peer.sh"

# Not the one on the path, which wants to be the user rabbitmq.
server=/usr/lib/rabbitmq/bin/rabbitmq-server

peer_install() { debian rabbitmq-server; }

peer_versions() {
  local erlang
  erlang=$(debian_version erlang-base) || die "not installed: run $0 install"
  echo "RabbitMQ $(debian_version rabbitmq-server) on Erlang $erlang"
}

peer_configs() {
  echo "default durable classic queues, persistent messages, confirmed after they were synced, many together"
  echo "synced quorum queues, of one node: confirmed after they were synced to the log of the group"
}

peer_prepare() {
  [ -x "$server" ] || die "not installed: run $0 install"
  {
    echo "listeners.tcp.1 = 127.0.0.1:${port[amqp]}"
    # What it would find by itself if the limit were that of a container.
    [ -z "$memory" ] || echo "total_memory_available_override_value = $memory"
  } >"$dir/rabbitmq.conf"
  echo '[].' >"$dir/enabled_plugins"
  mkdir -p "$dir/home"
}

peer_before() {
  local pid
  ! alive "$dir/epmd.pid" || return 0 # it survives a crash of the broker
  ERL_EPMD_ADDRESS=127.0.0.1 setsid epmd -port "${port[epmd]}" >>"$dir/log" 2>&1 </dev/null &
  disown $!
  record "$dir/epmd.pid" $!
}

peer_after() { stopped "$dir/epmd.pid"; }

# RUNNING_UNDER_SYSTEMD has the script become the broker instead of its parent.
peer_run() {
  export HOME=$dir/home RUNNING_UNDER_SYSTEMD=true
  export RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE=$dir/rabbitmq.conf RABBITMQ_CONFIG_FILES=$dir/none
  export RABBITMQ_ADVANCED_CONFIG_FILE=$dir/none RABBITMQ_ENABLED_PLUGINS_FILE=$dir/enabled_plugins
  export RABBITMQ_NODENAME=godwit@localhost RABBITMQ_MNESIA_BASE=$data RABBITMQ_LOG_BASE=$dir RABBITMQ_LOGS=-
  export RABBITMQ_DIST_PORT=${port[distribution]} ERL_EPMD_PORT=${port[epmd]} ERL_EPMD_ADDRESS=127.0.0.1
  export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
  exec "$server"
}

peer_ready() { said 'Server startup complete' && listens "$1" "${port[amqp]}"; }

peer_url() {
  local queue=classic
  [ "$config" != synced ] || queue=quorum
  echo "amqp://guest:guest@127.0.0.1:${port[amqp]}/ queue=$queue"
}

main "$@"
