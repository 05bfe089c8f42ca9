#!/usr/bin/env bash
# Apache Kafka as a peer: one KRaft node from its Maven artifacts, on loopback, in a scratch directory.
#
#   kafka.sh install                     resolve the artifacts, cache the classpath
#   kafka.sh classpath                   print the cached classpath
#   kafka.sh format DIR PORT CPORT [flush]   write DIR/server.properties and format DIR/data
#   kafka.sh run DIR                     become the broker (exec), so that the caller's child is the broker
#   kafka.sh start DIR PORT CPORT [flush]    format if need be, start, wait until ready, print pid and address
#   kafka.sh stop DIR                    stop the broker that `start` left in DIR, by its pid
#   kafka.sh tool CLASS ARGS...          become one of Kafka's own command line tools (exec)
#
# The configuration is Kafka's default but for addresses, the data directory and the replication
# factors a single node needs. With `flush`, every message is flushed: log.flush.interval.messages=1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${GODWIT_PEERS:-$here/../../.cache/peers}/kafka
cp_file=$cache/classpath.txt
# As kafka-run-class.sh and kafka-server-start.sh of the distribution set them.
perf_opts=(-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35
  -XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 -Djava.awt.headless=true)
heap_opts=(-Xmx1g -Xms1g)
log_opts=(-Dorg.slf4j.simpleLogger.defaultLogLevel=info)

die() { echo "kafka.sh: $*" >&2; exit 1; }

classpath() {
  [ -s "$cp_file" ] || die "not installed: run '$0 install'"
  cat "$cp_file"
}

install() {
  if [ -s "$cp_file" ] && [ "$cp_file" -nt "$here/pom.xml" ]; then
    local jar missing=0
    while read -r jar; do [ -e "$jar" ] || missing=1; done < <(tr ':' '\n' <"$cp_file")
    [ "$missing" = 1 ] || return 0
  fi
  command -v java >/dev/null || die "needs a Java 17 or newer runtime (java)"
  command -v mvn >/dev/null || die "needs Maven (mvn)"
  mkdir -p "$cache"
  mvn -q -B -f "$here/pom.xml" dependency:build-classpath -Dmdep.outputFile="$cp_file.new" >&2
  mv "$cp_file.new" "$cp_file"
}

# The cluster ID is fixed: the directory is scratch and the node is alone.
format() {
  local dir=$1 port=$2 cport=$3 variant=${4:-}
  mkdir -p "$dir"
  cat >"$dir/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$cport
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$cport
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
P
  case $variant in
    '') ;;
    flush) echo 'log.flush.interval.messages=1' >>"$dir/server.properties" ;;
    *) die "unknown variant '$variant'" ;;
  esac
  java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$(classpath)" kafka.tools.StorageTool \
    format -t Z29kd2l0YmVuY2hwZWVyMA -c "$dir/server.properties" --ignore-formatted >"$dir/format.log" 2>&1 ||
    { cat "$dir/format.log" >&2; die "format failed"; }
}

run() {
  local dir=$1
  exec java "${heap_opts[@]}" "${perf_opts[@]}" "${log_opts[@]}" -cp "$(classpath)" kafka.Kafka "$dir/server.properties"
}

start() {
  local dir=$1 port=$2 pid
  format "$@"
  nohup "${BASH_SOURCE[0]}" run "$dir" >"$dir/kafka.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$dir/kafka.pid"
  for _ in $(seq 600); do
    kill -0 "$pid" 2>/dev/null || { tail -20 "$dir/kafka.log" >&2; die "the broker ended while starting"; }
    if grep -q 'Kafka Server started' "$dir/kafka.log"; then
      echo "pid=$pid address=127.0.0.1:$port"
      return 0
    fi
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  die "not ready within 60 s; see $dir/kafka.log"
}

stop() {
  local pidfile=$1/kafka.pid pid
  [ -e "$pidfile" ] || return 0
  pid=$(cat "$pidfile")
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 300); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$pidfile"
}

# Heap as the distribution's scripts for the load tools give it.
tool() {
  local class=$1
  shift
  exec java -Xmx512M "${perf_opts[@]}" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$(classpath)" "$class" "$@"
}

cmd=${1:-}
[ $# -gt 0 ] && shift
case $cmd in
  install) install ;;
  classpath) classpath ;;
  format) [ $# -ge 3 ] || die "format DIR PORT CPORT [flush]"; format "$@" ;;
  run) [ $# -eq 1 ] || die "run DIR"; run "$@" ;;
  start) [ $# -ge 3 ] || die "start DIR PORT CPORT [flush]"; start "$@" ;;
  stop) [ $# -eq 1 ] || die "stop DIR"; stop "$@" ;;
  tool) [ $# -ge 1 ] || die "tool CLASS ARGS..."; tool "$@" ;;
  *) sed -n '2,/^$/{/^#/!d; s/^# \{0,1\}//p}' "$0" | head -9 >&2; exit 2 ;;
esac
