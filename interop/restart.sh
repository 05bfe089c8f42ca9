#!/usr/bin/env bash
# Kills the Godwit that run.sh started with SIGKILL and starts it again on the same data: called by the matrix, which then
# lets clients read what others had been told is written.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/broker.sh"

[ -n "${GODWIT_DIR:-}" ] || die "restart.sh is called by the matrix, with run.sh's own broker"
halt KILL
launch
