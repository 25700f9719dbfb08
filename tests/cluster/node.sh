#!/bin/bash
# node.sh VERB DIR [NODE]    real nodes of the cluster in DIR, node1 ... node9; as root
#
#   net-up            bridge and routes; before `ADDRESS=$(node.sh address DIR) up.sh DIR`
#   net-down
#   up NODE           start a node and wait until it is Ready
#   down NODE         stop it for good and free what it holds
#   kill NODE         power cut: every process of the node is killed at once, its disk is kept
#                     (up again boots it)
#   unplug|plug NODE  take its network away, give it back
#   stop|start NODE DAEMON     containerd, kubelet or kube-proxy
#   exec NODE CMD...  run a command in the node's namespaces
#   load NODE IMAGE...         import what images.sh made; containers that run keep what they have
#   dns-up|dns-down   CoreDNS on the bridge address, for all nodes
#
# Environment: NODE_NET (10.89.0), POD_NET (10.244), BRIDGE (cxw0): change all three for a
# second cluster on the same machine; BRIDGE alone if it has a COXSWAIN_LAB of its own, since the
# nodes' cgroups have its name. NODE_IMAGES: what `up` loads, if it is not there
# (pause base operator trainer-cpu).
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || usage_error
VERB=$1; mkdir -p "$2"; DIR=$(cd "$2" && pwd); shift 2
read_settings
NODE_NET=${NODE_NET:-10.89.0} POD_NET=${POD_NET:-10.244} BRIDGE=${BRIDGE:-cxw0}
case $VERB in net-*|address|dns-*) ;; *)
  NODE=${1:-}; N=${NODE#node}
  case $N in [1-9]) shift;; *) die "which node? node1 ... node9, got '$NODE'";; esac
  ND=$DIR/nodes/$NODE; VETH=$BRIDGE-$N;; esac
init_pid() {
  local pid _
  alive "$NODE" || return 1
  read -r pid _ <"$DIR/run/$NODE.pid"
  awk '{print $1}' "/proc/$pid/task/$pid/children"
}
inside() { nsenter --target "$(init_pid)" --mount --net --pid --uts -- "$@"; }

net_up() {
  printf 'NODE_NET=%s\nPOD_NET=%s\nBRIDGE=%s\n' "$NODE_NET" "$POD_NET" "$BRIDGE" >"$DIR/network"
  ip link show "$BRIDGE" >/dev/null 2>&1 || ip link add "$BRIDGE" type bridge
  ip addr replace "$NODE_NET.1/24" dev "$BRIDGE"; ip link set "$BRIDGE" up
  for n in 1 2 3 4 5 6 7 8 9; do
    ip route replace "$POD_NET.$n.0/24" via "$NODE_NET.$((10+n))"
  done
}
# Cgroups of the node, in whichever layout the machine has (v1, hybrid, v2).
cgroup_roots() { awk '$3~/^cgroup2?$/ && $2~"^/sys/fs/cgroup"{print $2}' /proc/mounts; }
cgroup_up() {
  local r p
  for r in $(cgroup_roots); do
    for p in "$r/coxswain-$BRIDGE" "$r/coxswain-$BRIDGE/$NODE"; do
      # cgroup v2 hands a controller to a child only when told to.
      if [ -w "${p%/*}/cgroup.subtree_control" ]; then
        for c in $(<"${p%/*}/cgroup.controllers"); do
          echo "+$c" >"${p%/*}/cgroup.subtree_control" 2>/dev/null || true
        done
      fi
      mkdir -p "$p" 2>/dev/null || true
      # cpuset of cgroup v1 starts empty: nothing could be put in it.
      for f in cpuset.mems cpuset.cpus; do
        if [ -w "$p/$f" ] && [ -z "$(cat "$p/$f")" ]; then
          cat "${p%/*}/$f" >"$p/$f" 2>/dev/null || true
        fi
      done
    done
  done
}
cgroup_down() {
  local r p
  for r in $(cgroup_roots); do
    p=$r/coxswain-$BRIDGE/$NODE
    [ ! -d "$p" ] || find "$p" -depth -type d -exec rmdir {} + 2>/dev/null || true
    rmdir "$r/coxswain-$BRIDGE" 2>/dev/null || true
  done
}
config() {
  mkdir -p "$ND"
  local ip=$NODE_NET.$((10+N))
  cert "$NODE" "/O=system:nodes/CN=system:node:$NODE" clientAuth
  cert "$NODE-serving" "/O=system:nodes/CN=system:node:$NODE" serverAuth "DNS:$NODE,IP:$ip"
  cert kube-proxy /CN=system:kube-proxy clientAuth
  kubeconfig "$ND/kubelet.kubeconfig" "$NODE" "https://$ADDRESS:$PORT"
  kubeconfig "$ND/kube-proxy.kubeconfig" kube-proxy "https://$ADDRESS:$PORT"
  echo "nameserver $NODE_NET.1" >"$ND/resolv.conf"
  cat >"$ND/containerd.toml" <<EOF
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Without CAP_SYS_RESOURCE no process may lower its own oom_score_adj.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
EOF
  mkdir -p "$ND/fs/etc/cni/net.d"
  cat >"$ND/fs/etc/cni/net.d/10-test.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "test", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$POD_NET.$N.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
EOF
  cat >"$ND/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $DIR/pki/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: $DIR/pki/$NODE-serving.crt
tlsPrivateKeyFile: $DIR/pki/$NODE-serving.key
clusterDomain: cluster.local
clusterDNS: [$NODE_NET.1]
resolvConf: $ND/resolv.conf
cgroupDriver: cgroupfs
cgroupRoot: /coxswain-$BRIDGE/$NODE
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
maxPods: 200
volumePluginDir: /var/lib/kubelet/volumeplugins
# Images cannot be pulled again: never collect them, never evict for disk space.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "0%", nodefs.inodesFree: "0%",
               imagefs.available: "0%", imagefs.inodesFree: "0%"}
# Faster than the defaults, so that node-loss tests do not take minutes.
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 20
healthzBindAddress: 127.0.0.1
shutdownGracePeriod: 0s
${KUBELET_CONFIG:-}
EOF
  cat >"$ND/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${PROXY_MODE:-iptables}
clientConnection: {kubeconfig: $ND/kube-proxy.kubeconfig}
clusterCIDR: $POD_NET.0.0/16
# Not ours to change: conntrack limits are the machine's.
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
EOF
}
ready() {
  local path='{.status.conditions[?(@.type=="Ready")].status}'
  [ "$(kc get node "$NODE" -o jsonpath="$path")" = True ]
}
up() {
  local t0; t0=$(now)
  [ "$(id -u)" = 0 ] || die "root needed"
  alive "$NODE" && { log "$NODE already runs"; return; }
  config; cgroup_up; modprobe -q overlay br_netfilter 2>/dev/null || true
  start "$NODE" unshare --mount --net --pid --uts --fork --kill-child=SIGKILL \
    --propagation slave env COXSWAIN_CACHE="$COXSWAIN_CACHE" KUBE_PROXY="${KUBE_PROXY:-1}" \
    "$HERE/node-init.sh" "$DIR" "$NODE" "$N"
  wait_for 10 "the namespaces of $NODE" init_up
  ip link del "$VETH" 2>/dev/null || true
  ip link add "$VETH" type veth peer name eth0 netns "$(init_pid)"
  ip link set "$VETH" master "$BRIDGE" up
  wait_for 30 "containerd on $NODE" inside ctr version
  local tc; tc=$(since "$t0")
  local have image; have=$(inside ctr -n k8s.io images ls -q)
  for image in ${NODE_IMAGES:-pause base operator trainer-cpu}; do
    case $have in *"/$image:"*) ;; *) load "$image";; esac
  done
  local ti; ti=$(since "$t0")
  wait_for 60 "$NODE to be Ready" ready || { tail -20 "$ND/kubelet.log" >&2; exit 1; }
  log "$NODE Ready after $(since "$t0")s (containerd ${tc}s, images ${ti}s)"
}
init_up() {
  local pid; pid=$(init_pid)
  [ -n "$pid" ] && [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}
load() {
  local image
  for image in "$@"; do
    [ -f "$IMAGES/$image.tar" ] || die "no image archive $IMAGES/$image.tar; images.sh makes it"
    inside ctr -n k8s.io images import "$IMAGES/$image.tar" >/dev/null
  done
}
kill_node() {
  local p
  p=$(init_pid) && kill -KILL "$p"
  stop "$NODE" 5
  ip link del "$VETH" 2>/dev/null || true
}
daemon_pid() { cat "$ND/$1.pid"; }   # as numbered inside the node

case $VERB in
  address) echo "$NODE_NET.1";;
  net-up) net_up;;
  net-down) ip link del "$BRIDGE" 2>/dev/null || true;;
  up) up;;
  kill) kill_node;;
  down) kill_node || true; cgroup_down; rm -rf "$ND";;
  unplug) ip link set "$VETH" down;;
  plug) ip link set "$VETH" up;;
  stop) touch "$ND/stop.$1"; inside kill -TERM "$(daemon_pid "$1")";;
  start) rm -f "$ND/stop.$1";;
  exec) inside "$@";;
  load) load "$@";;
  dns-up)
    cert coredns /O=system:masters/CN=coredns clientAuth
    kubeconfig "$DIR/coredns.kubeconfig" coredns "https://$ADDRESS:$PORT"
    cat >"$DIR/Corefile" <<EOF
cluster.local in-addr.arpa {
  bind $NODE_NET.1
  errors
  ready $NODE_NET.1:8181
  kubernetes {
    kubeconfig $DIR/coredns.kubeconfig
    pods insecure
    ttl 5
  }
  cache 30
  loadbalance
}
EOF
    start coredns "$BIN/coredns" -conf "$DIR/Corefile"
    wait_for 30 CoreDNS curl -sf "http://$NODE_NET.1:8181/ready";;
  dns-down) stop coredns;;
  *) usage_error;;
esac
