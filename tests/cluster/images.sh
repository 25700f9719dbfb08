#!/bin/bash
# images.sh    make the images of the test cluster's nodes, without a registry; as root
#
#   pause.tar  localhost/pause:1   a static binary, packed by hand
#   base.tar   localhost/base:1    debootstrap of $SUITE (minbase + $PACKAGES)
#   mpi.tar    localhost/mpi:1     base and an ordinary user, made by buildah
#
# They go to $COXSWAIN_CACHE/images; what is there is not made again. Needs the Debian packages
# gcc libc6-dev libopenmpi-dev debootstrap buildah jq, and root for debootstrap and buildah.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
SUITE=${SUITE:-bookworm}
PACKAGES=${PACKAGES:-openssh-server,openmpi-bin,iproute2,netcat-openbsd,dnsutils}
mkdir -p "$IMAGES"
WORK=$(mktemp -d "$IMAGES/work.XXXXXX"); trap 'rm -rf "$WORK"' EXIT
case ${1:-} in -*) usage; exit;; esac
for tool in gcc jq debootstrap buildah; do need $tool $tool; done

# pack ROOT REFERENCE ENTRYPOINT_JSON OUT: an image of one layer that `ctr images import` reads.
pack() {
  local id layer pack=$WORK/pack
  mkdir -p "$pack"; rm -rf "${pack:?}"/*
  tar --numeric-owner --owner=0 --group=0 --sort=name --mtime=@0 -C "$1" -cf "$pack/layer.tar" .
  layer=sha256:$(sha256sum <"$pack/layer.tar" | cut -d' ' -f1)
  jq -cn --arg diff "$layer" --argjson entry "$3" \
    '{architecture:"amd64",os:"linux",
      config:{Entrypoint:$entry,Env:["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]},
      rootfs:{type:"layers",diff_ids:[$diff]},history:[{}]}' >"$pack/config.json"
  id=$(sha256sum <"$pack/config.json" | cut -d' ' -f1); mv "$pack/config.json" "$pack/$id.json"
  jq -cn --arg c "$id.json" --arg t "$2" '[{Config:$c,RepoTags:[$t],Layers:["layer.tar"]}]' \
    >"$pack/manifest.json"
  tar -C "$pack" -cf "$4.part" manifest.json "$id.json" layer.tar && mv "$4.part" "$4"
}

if [ ! -f "$IMAGES/pause.tar" ]; then
  mkdir "$WORK/pause"; gcc -static -Os -s -o "$WORK/pause/pause" "$HERE/images/pause.c"
  pack "$WORK/pause" localhost/pause:1 '["/pause"]' "$IMAGES/pause.tar"; log "pause.tar built"
fi

B=(buildah --root "$IMAGES/buildah" --runroot "$WORK/runroot")
if [ ! -f "$IMAGES/base.tar" ]; then
  t0=$(now)
  # Nothing is installed through apt later: docs, locales and package lists can go.
  debootstrap --variant=minbase --include="$PACKAGES" "$SUITE" "$WORK/root" \
    >"$IMAGES/debootstrap.log" 2>&1 || { tail -20 "$IMAGES/debootstrap.log" >&2; die debootstrap; }
  rm -rf "$WORK"/root/var/cache/apt/* "$WORK"/root/var/lib/apt/lists/* "$WORK"/root/var/log/* \
         "$WORK"/root/usr/share/{doc,man,locale,info}/* "$WORK"/root/etc/ssh/ssh_host_*
  log "debootstrap took $(since "$t0")s"; t0=$(now)
  # The layer keeps owners and set-uid bits: tar as root, no --owner here.
  tar --numeric-owner -C "$WORK/root" -cf "$WORK/base-layer.tar" .
  rm -rf "$WORK/root"
  c=$("${B[@]}" from scratch); "${B[@]}" add -q "$c" "$WORK/base-layer.tar" / >/dev/null
  "${B[@]}" config --cmd /bin/bash \
    --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$c"
  "${B[@]}" commit -q --rm "$c" localhost/base:1 >/dev/null
  "${B[@]}" push -q localhost/base:1 "docker-archive:$IMAGES/base.tar.part:localhost/base:1" \
    >/dev/null
  mv "$IMAGES/base.tar.part" "$IMAGES/base.tar"
  log "base.tar packed in $(since "$t0")s"
fi
if [ ! -f "$IMAGES/mpi.tar" ]; then
  t0=$(now); mkdir -p "$WORK/mpi"
  mpicc -O2 -s -o "$WORK/mpi/ring" "$HERE/images/ring.c"
  "${B[@]}" images -q localhost/base:1 >/dev/null 2>&1 ||
    "${B[@]}" pull -q "docker-archive:$IMAGES/base.tar" >/dev/null
  "${B[@]}" build -q --isolation chroot --network host --pull=false \
    -f "$HERE/images/Containerfile.mpi" -t localhost/mpi:1 "$WORK/mpi" >/dev/null
  "${B[@]}" push -q localhost/mpi:1 "docker-archive:$IMAGES/mpi.tar.part:localhost/mpi:1" >/dev/null
  mv "$IMAGES/mpi.tar.part" "$IMAGES/mpi.tar"; log "mpi.tar built by buildah in $(since "$t0")s"
fi
ls -l "$IMAGES"/*.tar >&2
