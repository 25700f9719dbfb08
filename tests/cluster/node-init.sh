#!/bin/bash
# node-init.sh DIR NODE NUMBER    the first process of a node; node.sh starts it
#
# Runs inside the node's own mount, network, PID and UTS namespaces. Killing it takes the whole node
# with it, as a power cut would.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
DIR=$1 NODE=$2 N=$3; ND=$DIR/nodes/$NODE
read_settings
trap 'exit 0' TERM INT
hostname "$NODE"
mount -t proc proc /proc
rm -rf "$ND/fs/run"   # as a boot empties it
# Private copies of every host path that containerd, CNI and the kubelet have fixed.
for p in /var/lib/{kubelet,containerd,cni} /run/{containerd,netns} /var/log/{pods,containers} \
         /etc/cni/net.d; do
  mkdir -p "$ND/fs$p" "$p"; mount --bind "$ND/fs$p" "$p"
done
mount --make-rshared /
# The kubelet insists on some host-wide settings; show it files that already have its values
# instead of letting it change the machine's.
mkdir -p "$ND/sysctl"
while read -r key value; do
  [ -e "/proc/sys/$key" ] || continue
  f=$ND/sysctl/${key//\//.}; echo "$value" >"$f"; mount --bind "$f" "/proc/sys/$key"
done <<EOF
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
EOF
wait_for 30 "the node's network" ip link show eth0
ip link set lo up; ip addr add "$NODE_NET.$((10+N))/24" dev eth0; ip link set eth0 up
ip route add default via "$NODE_NET.1"
for m in 1 2 3 4 5 6 7 8 9; do
  [ "$m" = "$N" ] || ip route add "$POD_NET.$m.0/24" via "$NODE_NET.$((10+m))"
done
sysctl -qw net.ipv4.ip_forward=1

# supervise NAME CMD...: restart it whenever it ends; stop by creating $ND/stop.NAME.
supervise() {
  local name=$1; shift
  ( trap - TERM INT
    while :; do
      while [ -e "$ND/stop.$name" ]; do sleep 0.2; done
      "$@" >>"$ND/$name.log" 2>&1 </dev/null & echo $! >"$ND/$name.pid"; wait $! || true
      sleep 0.5
    done ) &
}
rm -f "$ND"/stop.*
supervise containerd containerd --config "$ND/containerd.toml"
wait_for 30 containerd ctr version
# shellcheck disable=SC2086
supervise kubelet "$BIN/kubelet" --config "$ND/kubelet.yaml" \
  --kubeconfig "$ND/kubelet.kubeconfig" --hostname-override "$NODE" \
  --node-ip "$NODE_NET.$((10+N))" --node-labels "coxswain.test/node=$NODE" ${KUBELET_FLAGS:-}
[ "${KUBE_PROXY:-1}" = 0 ] ||
  supervise kube-proxy "$BIN/kube-proxy" --config "$ND/kube-proxy.yaml" --hostname-override "$NODE"
while :; do wait || true; sleep 1; done
