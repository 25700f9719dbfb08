#!/bin/bash
# network.sh cut DIR POD_IP POD_IP   drop silently what these two pods send each other; as root
# network.sh cut DIR POD_IP          ... what this pod and anything else send each other
# network.sh heal DIR                end all cuts
#
# The packets vanish on arrival, inside the pods' own network namespaces: nobody is told, as with a
# broken switch. It doesn't matter on which nodes the pods are. Through lab.sh, as cluster.sh.
# shellcheck disable=SC2016  # what stands in single quotes is for the shells of nodes and pods
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || usage_error
VERB=$1 DIR=$(cd "$2" && pwd); shift 2

# in_pods SCRIPT: runs SCRIPT in the network namespace of each pod, where $ip is the pod's address.
in_pods() {
  local folder node
  for folder in "$DIR"/nodes/node*; do
    node=${folder##*/}
    alive "$node" || continue
    # Of a pod that is just going, the name may be there and nothing mounted on it.
    "$HERE/node.sh" exec "$DIR" "$node" bash -c '
      for namespace in /run/netns/cni-*; do
        nsenter --net="$namespace" true 2>/dev/null || continue
        nsenter --net="$namespace" bash -c '\''
          ip=$(ip -4 -o addr show dev eth0 | sed -n "s/.* inet \([0-9.]*\).*/\1/p")
          '\''"$1" bash "${@:2}"
      done' bash "$@"
  done
}

cut_between() {
  in_pods 'case $ip in
      "$1") iptables -w -A INPUT -s "$2" -j DROP; echo "$ip";;
      "$2") iptables -w -A INPUT -s "$1" -j DROP; echo "$ip";;
    esac' "$@"
}

cut_off() {
  in_pods 'if [ "$ip" = "$1" ]; then
      iptables -w -A INPUT -i eth0 -j DROP
      iptables -w -A OUTPUT -o eth0 -j DROP
      echo "$ip"
    fi' "$@"
}

# all_found COUNT FOUND: FOUND holds a line for each pod that was cut.
all_found() {
  [ "$(grep -c . <<<"$2")" = "$1" ] || die "no pod with one of these addresses: cut was ${2:-none}"
}

case $VERB/$# in
  cut/2) all_found 2 "$(cut_between "$@")";;
  cut/1) all_found 1 "$(cut_off "$@")";;
  heal/0) in_pods 'iptables -w -F INPUT; iptables -w -F OUTPUT';;
  *) usage_error;;
esac
