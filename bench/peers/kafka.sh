#!/usr/bin/env bash
# Apache Kafka: one KRaft node from its Maven artifacts. What it can be told is in peer.sh; and besides
#
#   kafka.sh tool CLASS ARGS...     become one of Kafka's own command line tools (exec)
#
# Kafka's defaults but for addresses, the data directory and the replication factors that a single node needs; heap and
# collector are those of the distribution's start script.

peer=kafka
port_names=(kafka controller)
. "$(dirname "${BASH_SOURCE[0]}")/peer.sh"

cp_file=$cache/classpath.txt
# As kafka-run-class.sh and kafka-server-start.sh of the distribution set them.
perf_opts=(-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35
  -XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 -Djava.awt.headless=true)
heap_opts=(-Xmx1g -Xms1g)

classpath() {
  [ -s "$cp_file" ] || die "not installed: run $0 install"
  cat "$cp_file"
}

peer_install() {
  if [ -s "$cp_file" ] && [ "$cp_file" -nt "$peers/pom.xml" ]; then
    local jar missing=0
    while read -r jar; do [ -e "$jar" ] || missing=1; done < <(tr ':' '\n' <"$cp_file")
    [ "$missing" = 1 ] || return 0
  fi
  need java "a Java runtime, 17 or newer (java)"
  need mvn "Maven (mvn)"
  mkdir -p "$cache"
  mvn -q -B -f "$peers/pom.xml" dependency:build-classpath -Dmdep.outputFile="$cp_file.new" >&2
  mv "$cp_file.new" "$cp_file"
}

peer_versions() {
  echo "Apache Kafka $(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$peers/pom.xml") on Java $(java_version)"
}

java_version() {
  java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java.version = //p'
}

peer_configs() {
  echo "default Kafka's defaults: a record is acknowledged from memory, and synced when the system or a segment's end does it"
  echo "synced log.flush.interval.messages=1: every append is synced before it is acknowledged"
}

peer_prepare() {
  cat >"$dir/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${port[controller]}
listeners=PLAINTEXT://127.0.0.1:${port[kafka]},CONTROLLER://127.0.0.1:${port[controller]}
advertised.listeners=PLAINTEXT://127.0.0.1:${port[kafka]}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
P
  [ "$config" != synced ] || echo log.flush.interval.messages=1 >>"$dir/server.properties"
  # The cluster ID is fixed: the directory is scratch and the node is alone.
  java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$(classpath)" kafka.tools.StorageTool \
    format -t Z29kd2l0YmVuY2hwZWVyMA -c "$dir/server.properties" --ignore-formatted >"$dir/format.log" 2>&1 ||
    { cat "$dir/format.log" >&2 && die "cannot format $data"; }
}

peer_run() {
  exec java "${heap_opts[@]}" "${perf_opts[@]}" -Dorg.slf4j.simpleLogger.defaultLogLevel=info \
    -cp "$(classpath)" kafka.Kafka "$dir/server.properties"
}

peer_ready() { said 'Kafka Server started' && listens "$1" "${port[kafka]}"; }

peer_url() { echo "kafka://127.0.0.1:${port[kafka]}"; }

# Heap as the distribution's scripts for the load tools give it.
own_tool() {
  [ $# -ge 1 ] || die "tool CLASS ARGS..."
  local class=$1
  shift
  exec java -Xmx512M "${perf_opts[@]}" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$(classpath)" "$class" "$@"
}

main "$@"
