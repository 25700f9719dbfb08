# What the scripts of tests/cluster share; sourced, not run.
#
# What lasts lives in $COXSWAIN_CACHE (programs, images); what belongs to one cluster lives in its
# DIR: settings, pki/, etcd/, run/ (pid files), log/, and the kubeconfigs.
# shellcheck shell=bash disable=SC2034
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
COXSWAIN_CACHE=${COXSWAIN_CACHE:-$HOME/.cache/coxswain}
BIN=$COXSWAIN_CACHE/bin
IMAGES=$COXSWAIN_CACHE/images

# The exit code that ctest takes for "skipped".
CANT_RUN_HERE=77

log() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }  # the comment at the script's head
usage_error() { usage >&2; exit 2; }
need() { command -v "$1" >/dev/null || die "$1 is missing: apt-get install $2"; }
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN{printf "%.1f", b-a}'; }

kc() { "$BIN/kubectl" --kubeconfig "$DIR/admin.kubeconfig" --request-timeout 5s "$@"; }

# leave_the_lab ARGUMENT...: the calling script fetches from elsewhere. It goes on with the machine's network, whether
# lab.sh runs it or not.
leave_the_lab() {
  [ -n "${COXSWAIN_OUTSIDE:-}" ] || return 0
  exec env -u COXSWAIN_OUTSIDE nsenter "--net=$COXSWAIN_OUTSIDE" -- "$0" "$@"
}

# The settings that the cluster in DIR was started with, if it was.
# shellcheck disable=SC1090,SC1091
read_settings() {
  for file in settings network; do
    if [ -f "$DIR/$file" ]; then . "$DIR/$file"; fi
  done
}

# start NAME CMD...: a daemon in the background, with a pid file and a log. Nothing if it runs.
start() {
  local name=$1; shift
  mkdir -p "$DIR/run" "$DIR/log"
  if alive "$name"; then return 0; fi
  # setsid: the daemon must not die with the terminal or the CI step that started it.
  setsid "$@" >>"$DIR/log/$name.log" 2>&1 </dev/null &
  # Process id and start time: another process with a recycled id is never mistaken for ours.
  printf '%s %s\n' $! "$(start_time $!)" >"$DIR/run/$name.pid"
}

start_time() { awk '{print $22}' "/proc/$1/stat" 2>/dev/null; }

alive() {
  local pid ticks
  [ -f "$DIR/run/$1.pid" ] || return 1
  read -r pid ticks <"$DIR/run/$1.pid" || return 1
  [ "$(start_time "$pid")" = "$ticks" ] || return 1
  [ "$(awk '{print $3}' "/proc/$pid/stat" 2>/dev/null)" != Z ]
}

# stop NAME [SECONDS]: SIGTERM, then SIGKILL if it has not gone after SECONDS.
stop() {
  local name=$1 left=$(( ${2:-20} * 10 )) pid
  if alive "$name"; then
    read -r pid _ <"$DIR/run/$name.pid"
    kill -TERM "$pid" 2>/dev/null || true
    while alive "$name" && [ "$left" -gt 0 ]; do sleep 0.1; left=$((left-1)); done
    if alive "$name"; then
      log "$name: killed after SIGTERM was ignored"
      kill -KILL "$pid" 2>/dev/null || true
    fi
  fi
  rm -f "$DIR/run/$name.pid"
}

# wait_for SECONDS WHAT CMD...: tries CMD until it succeeds.
wait_for() {
  local end=$((SECONDS + $1)) seconds=$1 what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { log "no sign of $what after $seconds s"; return 1; }
    sleep 0.2
  done
}

# Certificates: one authority a DIR, EC keys (fast), good for a week.
ca() {
  [ ! -f "$DIR/pki/$1.crt" ] || return 0
  mkdir -p "$DIR/pki"; chmod 700 "$DIR/pki"
  openssl ecparam -name prime256v1 -genkey -noout -out "$DIR/pki/$1.key" 2>/dev/null
  openssl req -x509 -new -key "$DIR/pki/$1.key" -sha256 -days 7 \
    -subj "/CN=coxswain-test-$1" -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign,digitalSignature -out "$DIR/pki/$1.crt"
}

# cert NAME SUBJECT EXTENDED_KEY_USAGE [SUBJECT_ALT_NAMES]
cert() {
  local name=$1 subject=$2 usage=$3 sans=${4:-}
  [ ! -f "$DIR/pki/$name.crt" ] || return 0
  openssl ecparam -name prime256v1 -genkey -noout -out "$DIR/pki/$name.key" 2>/dev/null
  openssl req -new -key "$DIR/pki/$name.key" -subj "$subject" -out "$DIR/pki/$name.csr"
  { echo "basicConstraints=CA:FALSE"
    echo "keyUsage=digitalSignature"
    echo "extendedKeyUsage=$usage"
    [ -z "$sans" ] || echo "subjectAltName=$sans"; } >"$DIR/pki/$name.ext"
  openssl x509 -req -in "$DIR/pki/$name.csr" -CA "$DIR/pki/ca.crt" -CAkey "$DIR/pki/ca.key" \
    -CAserial "$DIR/pki/ca.srl" -CAcreateserial -days 7 -sha256 -extfile "$DIR/pki/$name.ext" \
    -out "$DIR/pki/$name.crt" 2>/dev/null
  rm -f "$DIR/pki/$name.csr" "$DIR/pki/$name.ext"
}

# kubeconfig FILE CERT SERVER: certificates embedded, so that the file can be copied around.
kubeconfig() {
  cat >"$1" <<END
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: "$3"
    certificate-authority-data: $(base64 -w0 "$DIR/pki/ca.crt")
users:
- name: test
  user:
    client-certificate-data: $(base64 -w0 "$DIR/pki/$2.crt")
    client-key-data: $(base64 -w0 "$DIR/pki/$2.key")
contexts:
- name: test
  context: {cluster: test, user: test}
current-context: test
END
  chmod 600 "$1"
}
