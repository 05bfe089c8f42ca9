#!/usr/bin/env bash
# Real clients of five languages against Godwit: see README.md. Arguments go to the matrix, for example
#   interop/run.sh -clients kcat,java -parts write,read
# BROKER=host:port tests that broker instead of a Godwit of its own; GODWIT=file tests that binary.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/broker.sh"
. "$root/interop/install.sh"

need_all
install_kcat
install_java
install_python
install_node
install_go ./interop/goclient/... ./interop/matrix
start_broker
ours=()
[ -z "${GODWIT_DIR:-}" ] || ours=(-restart "$root/interop/restart.sh" -log "$built/godwit.log")
"$built/matrix" -broker "$BROKER" -source "$root/interop" -built "$built" "${ours[@]}" "$@"
