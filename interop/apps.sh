#!/usr/bin/env bash
# Real applications on Godwit under faults: see README.md. Arguments go to the program, for example
#   interop/apps.sh -apps mixed,connect -seed 7
#   interop/apps.sh -long
# GODWIT=file tests that binary.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/broker.sh"
. "$root/interop/install.sh"

need_all
install_java
install_java_apps
install_python
install_node
install_go ./interop/goclient/... ./interop/apps
if [ -z "${GODWIT:-}" ]; then
	(cd "$root" && CGO_ENABLED=0 go build -o "$built/godwit" ./cmd/godwit)
	GODWIT=$built/godwit
fi
exec "$built/apps" -godwit "$GODWIT" -source "$root/interop" -built "$built" "$@"
