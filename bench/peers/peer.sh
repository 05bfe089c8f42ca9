# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by the scripts beside it, each of which runs one broker on loopback in a directory of its own. Not a program.
#
#   NAME.sh install                      fetch it from a package registry; nothing to do the second time
#   NAME.sh versions                     what is installed, one program a line
#   NAME.sh configs                      its configurations, "NAME DESCRIPTION" a line
#   NAME.sh start DIR [CONFIG [PORT]]    start it, wait until it serves, print its target URL; PORT 0 is a free one
#   NAME.sh restart DIR                  stop it in good order, start it on the same ports and data, print the URL
#   NAME.sh kill DIR                     SIGKILL, as a crash
#   NAME.sh stop DIR                     stop it in good order, after a minute by force; nothing to do if it does not run
#   NAME.sh prepare DIR [CONFIG [PORT]]  write what `run` needs
#   NAME.sh run DIR                      become the broker (exec)
#
# DIR holds the broker's files and its output (log), and outlives it; data that is in it already is kept. With
# GODWIT_PEER_MEMORY=BYTES the broker, page cache included, gets no more memory than that: it runs in a memory cgroup
# of its own, until it is stopped and started without.
#
# A script sets
#   peer             its name
#   port_names       what it has ports for; the first is the one that clients use
# and defines
#   peer_install, peer_configs
#   peer_versions    the first line is what the URL tells
#   peer_prepare     writes its configuration
#   peer_run         becomes the broker
#   peer_ready PID   is true once the broker serves
#   peer_url         prints the URL without settings, and then the protocol's settings as words NAME=VALUE
# and may define again peer_before and peer_after, below. They find $dir, $data, $config, $memory (bytes, or
# empty) and the ports as ${port[NAME]}.

set -euo pipefail

peers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$peers/../.." && pwd)
cache=${GODWIT_PEERS:-$repo/.cache/peers}/$peer
script=$peers/$(basename "$0")

start_limit=600 # seconds; a broker may have a long log to read
stop_limit=60   # seconds until a stop becomes a kill
open_files=524288

declare -A port

die() {
  echo "$peer.sh: $*" >&2
  exit 1
}

need() { command -v "$1" >/dev/null || die "needs $2"; }

# --- Debian's packages ---

# debian NAME... installs packages without starting their services.
debian() {
  local missing=() name
  for name in "$@"; do
    debian_version "$name" >/dev/null || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    die "install Debian's ${missing[*]} as root: apt-get install --no-install-recommends ${missing[*]}"
  fi
  exec 9>/tmp/godwit-peers.lock # one at a time: they share the policy below
  flock 9
  local policy=/usr/sbin/policy-rc.d ours=
  if [ ! -e "$policy" ]; then
    ours=1
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy" # "forbidden by policy", to whoever wants to start a service
    chmod 755 "$policy"
  fi
  local apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
  {
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" update &&
      DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --no-install-recommends "${missing[@]}"
  } >&2 9>&- </dev/null || die "apt-get cannot install ${missing[*]}"
  if [ -n "$ours" ]; then
    rm -f "$policy"
    trap - EXIT
  fi
  exec 9>&-
}

# debian_version NAME prints the version of an installed package.
debian_version() {
  local said
  said=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null) || return 1
  [ "${said%% *}" = installed ] && echo "${said#* }"
}

# --- processes ---

# birth PID sets born to when a process began, in ticks since the machine did; false if it has ended. One whose main thread
# has ended goes on, and keeps its sockets, as long as another thread does.
birth() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # shellcheck disable=SC2086
  set -- ${stat##*) } # the name before it may have spaces
  born=${20}
  [[ $1 != [ZX] || ${18} -gt 1 ]]
}

# record FILE PID remembers a process: by the time it began, too, so that a reused ID is not taken for it.
record() {
  local born=
  birth "$2" || true
  echo "$2 $born" >"$1"
}

# alive FILE sets pid to the process that the file remembers; false if it has ended.
alive() {
  local began born
  { read -r pid began <"$1"; } 2>/dev/null && birth "$pid" && [ "$born" = "$began" ]
}

# end FILE SIGNAL SECONDS signals the process that the file remembers, and waits until it is gone; false if it is not.
end() {
  local pid i
  alive "$1" || return 0
  kill -s "$2" "$pid" 2>/dev/null || true
  for ((i = 0; i < $3 * 20; i++)); do
    alive "$1" || return 0
    sleep 0.05
  done
  return 1
}

# stopped FILE [SIGNAL] ends a process, by force if need be.
stopped() {
  local pid
  if ! end "$1" "${2:-TERM}" "$stop_limit"; then
    alive "$1" || return 0
    echo "$peer.sh: process $pid did not end within $stop_limit s of SIG${2:-TERM} and is killed" >&2
    end "$1" KILL "$stop_limit" || die "process $pid does not end"
  fi
}

# --- ports ---

# listening prints inode and port, in decimal, of every TCP socket that listens.
listening() {
  local file local_address state inode _
  for file in /proc/net/tcp /proc/net/tcp6; do
    [ -r "$file" ] || continue
    while read -r _ local_address _ state _ _ _ _ _ inode _; do
      [ "$state" != 0A ] || echo "$inode $((16#${local_address##*:}))"
    done <"$file"
  done
}

# listens PID PORT is true if that process listens there.
listens() {
  local inode number
  while read -r inode number; do
    [ "$number" = "$2" ] || continue
    [ -z "$(find "/proc/$1/fd" -lname "socket:\[$inode\]" 2>/dev/null)" ] || return 0
  done < <(listening)
  return 1
}

# free_port prints a port that nothing listens on, below those that the kernel gives to clients.
free_port() {
  local taken number try
  taken=" $(listening | cut -d' ' -f2 | tr '\n' ' ') ${port[*]} "
  for ((try = 0; try < 100; try++)); do
    number=$((20000 + SRANDOM % 12000))
    case $taken in *" $number "*) ;; *) echo "$number" && return ;; esac
  done
  die "no free port between 20000 and 32000"
}

# --- memory ---

# own_group prints where the broker's memory cgroup is to be: below this process's own in version 1, below the root in
# version 2, where a group with processes cannot have others below it.
own_group() {
  local base=/sys/fs/cgroup name own
  name=godwit-$peer-$(echo "$dir" | cksum | cut -d' ' -f1)
  if [ -e "$base/cgroup.controllers" ]; then
    echo "$base/$name"
    return
  fi
  own=$(awk -F: '$2 ~ /(^|,)memory(,|$)/ { print $3 }' /proc/self/cgroup)
  [ -d "$base/memory$own" ] || own=
  echo "$base/memory${own%/}/$name"
}

# limit makes the cgroup, with its limit, if there is to be one.
limit() {
  [ -n "$group" ] || return 0
  local why="GODWIT_PEER_MEMORY needs a memory cgroup: root, and cgroups mounted at /sys/fs/cgroup"
  local controllers=/sys/fs/cgroup/cgroup.controllers
  if [ -e "$controllers" ]; then
    grep -qw memory "$controllers" || die "$why; there is no memory controller"
    { echo +memory >/sys/fs/cgroup/cgroup.subtree_control; } 2>/dev/null || die "$why; the memory controller cannot be turned on"
  fi
  mkdir -p "$group" 2>/dev/null || die "$why; cannot make $group"
  if [ -e "$group/memory.max" ]; then
    echo "$memory" >"$group/memory.max" || die "cannot set $group/memory.max to $memory"
    [ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
  elif [ -e "$group/memory.limit_in_bytes" ]; then
    echo "$memory" >"$group/memory.limit_in_bytes" || die "cannot set $group/memory.limit_in_bytes to $memory"
  else
    rmdir "$group"
    die "$why; $group has no memory limit"
  fi
}

# unlimit removes the cgroup. A child of the broker may take a moment to end after it.
unlimit() {
  local i
  for ((i = 0; i < 100; i++)); do
    [ -d "$group" ] && ! rmdir "$group" 2>/dev/null || return 0
    sleep 0.05
  done
  die "cannot remove $group: processes $(tr '\n' ' ' <"$group/cgroup.procs")are in it"
}

# --- what a script may define again ---

# said TEXT is true if the broker wrote that since it was started.
said() { grep -q -- "$1" < <(tail -c "+$((log_from + 1))" "$dir/log"); }

peer_before() { :; } # starts what the broker needs beside it
peer_after() { :; }  # stops that

# --- verbs ---

# locate DIR makes the directory and reads what was decided for it.
locate() {
  local key value
  mkdir -p "$1"
  dir=$(cd "$1" && pwd)
  data=$dir/data
  config=
  memory=
  group=
  while read -r key value; do
    case $key in
      config) config=$value ;;
      memory) memory=$value ;;
      group) group=$value ;;
      port.*) port[${key#port.}]=$value ;;
    esac
  done < <(cat "$dir/peer" 2>/dev/null)
}

# prepare [CONFIG [PORT]] decides what is open yet, and writes the configuration.
prepare() {
  local name
  config=${1:-${config:-default}}
  describe >/dev/null
  [ "${2:-0}" = 0 ] || port[${port_names[0]}]=$2
  for name in "${port_names[@]}"; do
    [ -n "${port[$name]:-}" ] || port[$name]=$(free_port)
  done
  mkdir -p "$data"
  {
    echo "config $config"
    echo "memory $memory"
    echo "group $group"
    for name in "${port_names[@]}"; do echo "port.$name ${port[$name]}"; done
  } >"$dir/peer"
  peer_prepare
}

# describe prints what is said of the configuration.
describe() {
  peer_configs | sed -n "s/^$config  *//p" | grep . ||
    die "no configuration '$config': there are $(peer_configs | cut -d' ' -f1 | tr '\n' ' ')"
}

# encode TEXT prints it as part of a URL's query.
encode() {
  local LC_ALL=C text=$1 out='' i c
  for ((i = 0; i < ${#text}; i++)); do
    c=${text:i:1}
    case $c in
      [A-Za-z0-9._~/:,-]) out+=$c ;;
      *) printf -v c '%%%02X' "'$c" && out+=$c ;;
    esac
  done
  echo "$out"
}

# url PID prints the target URL.
url() {
  local words name=$peer versions described query word
  read -r -a words < <(peer_url)
  [ "$config" = default ] || name+=-$config
  versions=$(peer_versions)
  described=$(describe)
  query="name=$name&pid=$1&version=$(encode "${versions%%$'\n'*}")&config=$(encode "$described")"
  query+="&script=$(encode "$script")&dir=$(encode "$dir")&data=$(encode "$data")"
  [ -z "$memory" ] || query+="&memory=$memory"
  for word in "${words[@]:1}"; do query+="&$word"; done
  echo "${words[0]}?$query"
}

# launch starts the broker on what is prepared, waits until it serves and prints its URL.
launch() {
  local pid i log_from
  limit
  touch "$dir/log"
  log_from=$(stat -c %s "$dir/log")
  trap 'halt KILL; exit 130' INT TERM HUP
  peer_before
  setsid "$script" run "$dir" >>"$dir/log" 2>&1 </dev/null &
  pid=$!
  disown "$pid"
  record "$dir/pid" "$pid"
  for ((i = 0; i < start_limit * 20; i++)); do
    alive "$dir/pid" || break
    if peer_ready "$pid"; then
      url "$pid"
      return
    fi
    sleep 0.05
  done
  tail -c "+$((log_from + 1))" "$dir/log" | tail -n 20 >&2
  halt KILL
  die "the broker ended, or did not serve within $start_limit s; its output is in $dir/log"
}

# halt SIGNAL stops everything that `launch` started.
halt() {
  stopped "$dir/pid" "$1"
  peer_after
  unlimit
}

verb_start() {
  locate "$1"
  local pid
  ! alive "$dir/pid" || die "runs already in $dir, process $pid"
  unlimit # of an earlier start that ended in a crash
  memory=${GODWIT_PEER_MEMORY:-}
  case $memory in *[!0-9]* | 0*) die "GODWIT_PEER_MEMORY=$memory is not a number of bytes" ;; esac
  group=${memory:+$(own_group)}
  prepare "${@:2}"
  launch
}

verb_restart() {
  locate "$1"
  [ -n "$config" ] || die "nothing was started in $dir"
  halt TERM
  launch
}

verb_kill() {
  locate "$1"
  stopped "$dir/pid" KILL
}

verb_stop() {
  [ -d "$1" ] || return 0
  locate "$1"
  halt TERM
}

verb_prepare() {
  locate "$1"
  prepare "${@:2}"
}

verb_run() {
  local hard
  locate "$1"
  [ -n "$config" ] || die "nothing was prepared in $dir"
  hard=$(ulimit -Hn)
  [ "$hard" != unlimited ] && [ "$hard" -lt "$open_files" ] || hard=$open_files
  ulimit -n "$hard"
  [ -z "$group" ] || echo $$ >"$group/cgroup.procs" || die "cannot enter $group"
  cd "$dir"
  peer_run
}

usage() {
  sed -n '2,/^$/{/^#/!d; s/^# \{0,1\}//p}' "$0" >&2
  sed -n '/^#   NAME.sh/{s/^#   //; s/NAME/'"$peer"'/p}' "$peers/peer.sh" >&2
  exit 2
}

main() {
  local verb=${1:-}
  [ $# -eq 0 ] || shift
  case $verb/$# in
    install/0) peer_install ;;
    versions/0) peer_versions ;;
    configs/0) peer_configs ;;
    start/[123] | prepare/[123] | run/1 | restart/1 | kill/1 | stop/1) "verb_$verb" "$@" ;;
    *)
      if declare -F "own_$verb" >/dev/null; then "own_$verb" "$@"; else usage; fi
      ;;
  esac
}
