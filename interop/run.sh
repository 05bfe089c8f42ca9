#!/usr/bin/env bash
# Real clients of five languages against Godwit: see README.md. Arguments go to the matrix, for example
#   interop/run.sh -clients kcat,java -parts write,read
# BROKER=host:port tests that broker instead of a Godwit of its own; GODWIT=file tests that binary.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/broker.sh"

# once NAME FILE... is true if NAME was not yet made from exactly these files; made NAME says that it is now.
once() {
	local name=$1
	shift
	stamp=$(cat "$@" | cksum)
	[ "$(cat "$built/$name.stamp" 2>/dev/null)" != "$stamp" ]
}
made() { echo "$stamp" >"$built/$1.stamp"; }

need() {
	command -v "$1" >/dev/null || die "$1 is missing: install $2"
}

install_kcat() {
	command -v kcat >/dev/null && return
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		die "kcat is missing: install Debian's package kcat (apt-get install kcat)"
	fi
	DEBIAN_FRONTEND=noninteractive apt-get -q update
	DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install kcat
}

install_java() {
	local pom dir
	for pom in pom pom-2.1; do
		dir=java${pom#pom}
		once "$dir" "$root/interop/java/$pom.xml" "$root/interop/java/Client.java" || continue
		rm -rf "${built:?}/$dir"
		mkdir -p "$built/$dir"
		mvn -q -B -f "$root/interop/java/$pom.xml" dependency:build-classpath "-Dmdep.outputFile=$built/$dir/cp.txt" \
			>"$built/mvn.log" 2>&1 || { cat "$built/mvn.log" >&2; die "Maven cannot fetch the Java clients"; }
		javac -d "$built/$dir" -cp "$(cat "$built/$dir/cp.txt")" "$root/interop/java/Client.java"
		made "$dir"
	done
}

install_python() {
	once venv "$root/interop/python/requirements.txt" || return 0
	rm -rf "$built/venv"
	python3 -m venv "$built/venv" || die "python3 cannot make a virtual environment: install python3-venv"
	"$built/venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: -r "$root/interop/python/requirements.txt"
	made venv
}

# Node 22, which @platformatic/kafka asks for, comes as a package like the clients; any Node 20 can install it.
install_node() {
	mkdir -p "$built/node"
	cp "$root"/interop/node/* "$built/node/"
	once node "$root/interop/node/package-lock.json" || return 0
	(cd "$built/node" && npm ci --silent --no-audit --no-fund --ignore-scripts --engine-strict=false)
	local node
	for node in "$built"/node/node_modules/node-linux-*/bin/node "$(command -v node)"; do
		[ -x "$node" ] || continue
		ln -sfn "$node" "$built/node/node22"
		"$node" -e 'process.exit(process.versions.node.split(".")[0] >= 22 ? 0 : 1)' && made node && return
	done
	die "no Node 22 came with the packages and node on the path is older: install Node 22"
}

install_go() {
	(cd "$root" && go build -o "$built/" ./interop/goclient/... ./interop/matrix)
}

need go "Go 1.26"
need javac "a JDK, 17 or newer (openjdk-17-jdk-headless)"
need mvn "Maven (maven)"
need python3 "Python 3.9 or newer (python3, python3-venv)"
need npm "Node 20 or newer with npm"
mkdir -p "$built"
install_kcat
install_java
install_python
install_node
install_go
start_broker
ours=()
[ -z "${GODWIT_DIR:-}" ] || ours=(-restart "$root/interop/restart.sh" -log "$built/godwit.log")
"$built/matrix" -broker "$BROKER" -source "$root/interop" -built "$built" "${ours[@]}" "$@"
