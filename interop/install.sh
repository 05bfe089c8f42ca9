# Sourced by run.sh and apps.sh: what the clients and applications need, installed into $built. Not a program.

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

need_all() {
	need go "Go 1.26"
	need javac "a JDK, 17 or newer (openjdk-17-jdk-headless)"
	need mvn "Maven (maven)"
	need python3 "Python 3.9 or newer (python3, python3-venv)"
	need npm "Node 20 or newer with npm"
	mkdir -p "$built"
}

install_kcat() {
	command -v kcat >/dev/null && return
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		die "kcat is missing: install Debian's package kcat (apt-get install kcat)"
	fi
	DEBIAN_FRONTEND=noninteractive apt-get -q update
	DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install kcat
}

# install_maven NAME POM JAVA... fetches the jars that the POM names and compiles the programs on them, into $built/NAME.
install_maven() {
	local name=$1 pom=$2
	shift 2
	once "$name" "$pom" "$@" || return 0
	rm -rf "${built:?}/$name"
	mkdir -p "$built/$name"
	mvn -q -B -f "$pom" dependency:build-classpath "-Dmdep.outputFile=$built/$name/cp.txt" >"$built/mvn.log" 2>&1 ||
		{ cat "$built/mvn.log" >&2 && die "Maven cannot fetch what $pom names"; }
	[ $# -eq 0 ] || javac -d "$built/$name" -cp "$(cat "$built/$name/cp.txt")" "$@"
	made "$name"
}

install_java() {
	install_maven java "$root/interop/java/pom.xml" "$root/interop/java"/*.java
	install_maven java-2.1 "$root/interop/java/pom-2.1.xml" "$root/interop/java"/*.java
}

install_java_apps() {
	install_maven java-apps "$root/interop/java/apps/pom.xml" "$root/interop/java/apps"/*.java
	install_maven java-connect "$root/interop/java/connect/pom.xml"
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

# install_go PACKAGE... builds programs of this repository.
install_go() {
	(cd "$root" && go build -o "$built/" "$@")
}
