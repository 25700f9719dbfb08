#!/bin/bash
# images.sh [NAME...]    make the images that the test cluster's nodes load, without a registry; root
#
#   pause        localhost/pause:1     keeps a pod's namespaces; a static binary, packed by hand
#   base         localhost/base:1      Debian, as debian:bookworm-slim is; what ours are built on
#   pytorch      localhost/pytorch:1   Debian's PyTorch, an image that is not ours; not in "all"
#   mxnet        localhost/mxnet:1     MXNet 1.9.1 and the digits; not in "all"
#   tensorflow   localhost/tensorflow:1  TensorFlow and tf-keras; not in "all"
#   mpi4py       localhost/mpi4py:1    trainer-cpu of this version with mpi4py; not in "all"
#   operator     localhost/coxswain/operator:VERSION     by docker/build.sh, with the programs of
#   trainer-cpu  localhost/coxswain/trainer-cpu:VERSION  build/release/bin as they are there now
#   trainer-cuda localhost/coxswain/trainer-cuda:VERSION, with that of build/cuda/bin; not in "all"
#
# Without a NAME: all. They go to $COXSWAIN_CACHE/images as NAME.tar; of ours only the layers that
# changed are made anew, the others are made once. See `install-dependencies.sh cluster` for what it needs.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
leave_the_lab "$@"
SUITE=bookworm
BUILDAH=(buildah --root "$IMAGES/buildah" --runroot "$IMAGES/buildah-run")
case ${1:-} in -*) usage; exit;; esac

# pack ROOT REFERENCE CONFIG_JSON OUT: an image of one layer that `ctr images import` reads.
pack() {
  local id layer pack=$WORK/pack
  rm -rf "$pack"; mkdir "$pack"
  tar --numeric-owner --sort=name --mtime=@0 -C "$1" -cf "$pack/layer.tar" .
  layer=sha256:$(sha256sum <"$pack/layer.tar" | cut -d' ' -f1)
  jq -cn --arg diff "$layer" --argjson config "$3" \
    '{architecture:"amd64",os:"linux",config:$config,
      rootfs:{type:"layers",diff_ids:[$diff]},history:[{}]}' >"$pack/config.json"
  id=$(sha256sum <"$pack/config.json" | cut -d' ' -f1); mv "$pack/config.json" "$pack/$id.json"
  jq -cn --arg c "$id.json" --arg t "$2" '[{Config:$c,RepoTags:[$t],Layers:["layer.tar"]}]' \
    >"$pack/manifest.json"
  tar -C "$pack" -cf "$4.part" manifest.json "$id.json" layer.tar && mv "$4.part" "$4"
}

make_pause() {
  [ ! -f "$IMAGES/pause.tar" ] || return 0
  mkdir "$WORK/pause"
  gcc -static -Os -s -o "$WORK/pause/pause" "$HERE/images/pause.c"
  pack "$WORK/pause" localhost/pause:1 '{"Entrypoint":["/pause"]}' "$IMAGES/pause.tar"
}

# A build on top of the base fetches packages from where this machine does. What packages brought
# is about this machine, not about the network.
use_apt_sources_of_this_machine() {
  local file
  rm -f "$1/sources.list"
  cp -r /etc/apt/sources.list* "$1/"
  for file in /etc/apt/apt.conf.d/*; do
    dpkg-query -S "$file" >/dev/null 2>&1 || cp "$file" "$1/apt.conf.d/"
  done
}

make_base() {
  local root=$WORK/root path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  if [ -f "$IMAGES/base.tar" ]; then
    "${BUILDAH[@]}" inspect --type image localhost/base:1 >/dev/null 2>&1 ||
      "${BUILDAH[@]}" pull -q "docker-archive:$IMAGES/base.tar" >/dev/null
    return
  fi
  log "base: debootstrap, about a minute"
  # As in Debian's own slim images: no documentation, now or when a package is added.
  mkdir -p "$root/etc/dpkg/dpkg.cfg.d"
  printf 'path-exclude %s\n' '/usr/share/doc/*' '/usr/share/info/*' '/usr/share/man/*' \
    '/usr/share/locale/*' >"$root/etc/dpkg/dpkg.cfg.d/slim"
  debootstrap --variant=minbase "$SUITE" "$root" >"$IMAGES/debootstrap.log" 2>&1 ||
    { tail -20 "$IMAGES/debootstrap.log" >&2; die "debootstrap failed: $IMAGES/debootstrap.log"; }
  use_apt_sources_of_this_machine "$root/etc/apt"
  rm -rf "$WORK"/root/{dev,var/cache,var/lib/apt/lists,var/log,usr/share/{doc,man,info,locale}}/* \
         "$WORK"/root/etc/{resolv.conf,hostname,machine-id}
  pack "$root" localhost/base:1 "{\"Cmd\":[\"bash\"],\"Env\":[\"PATH=$path\"]}" "$IMAGES/base.tar"
  "${BUILDAH[@]}" pull -q "docker-archive:$IMAGES/base.tar" >/dev/null
}

# make_foreign NAME CONTEXT [OPTION...]: images/NAME.Dockerfile with what the folder holds.
make_foreign() {
  local tag=localhost/$1:1
  "${BUILDAH[@]}" build --layers --timestamp 0 --pull=false "${@:3}" -f "$HERE/images/$1.Dockerfile" \
    -t "$tag" "$2" >"$IMAGES/$1.log" 2>&1 ||
    { tail -20 "$IMAGES/$1.log" >&2; die "$1 could not be built: $IMAGES/$1.log"; }
  "${BUILDAH[@]}" push -q "$tag" "docker-archive:$IMAGES/$1.tar.part:$tag" >/dev/null
  mv "$IMAGES/$1.tar.part" "$IMAGES/$1.tar"
}

make_pytorch() {
  [ ! -f "$IMAGES/pytorch.tar" ] || return 0
  log "pytorch: 200 MB of packages"
  make_foreign pytorch "$ROOT/docker"
}

# fetch_wheels REQUIREMENTS DIR: for the base's Python.
fetch_wheels() {
  python3 -m pip download -q --only-binary :all: --python-version 3.11 -d "$2" -r "$1" >&2
}

make_tensorflow() {
  [ ! -f "$IMAGES/tensorflow.tar" ] || return 0
  log "tensorflow: 400 MB of packages"
  mkdir "$WORK/tensorflow"
  fetch_wheels "$ROOT/tests/e2e/programs/tensorflow.txt" "$WORK/tensorflow/wheels"
  cp "$ROOT/docker/install.sh" "$WORK/tensorflow"
  make_foreign tensorflow "$WORK/tensorflow"
}

# Each time: what it stands on may be another one. Its layers are kept.
make_mpi4py() {
  local version
  version=$(sed -n 's/^project(coxswain VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
  make_foreign mpi4py "$ROOT/docker" --build-arg "BASE=localhost/coxswain/trainer-cpu:$version"
}

make_mxnet() {
  [ ! -f "$IMAGES/mxnet.tar" ] || return 0
  log "mxnet: 100 MB of packages"
  mkdir "$WORK/mxnet"
  fetch_wheels "$ROOT/tests/bench/parameter_server/requirements.txt" "$WORK/mxnet/wheels"
  cp -r "$ROOT/docker/install.sh" "$ROOT/examples/data/mnist" "$WORK/mxnet"
  make_foreign mxnet "$WORK/mxnet"
}

make_ours() {
  local cuda=()
  case " $* " in
    *" trainer-cuda "*) cuda=(--cuda-programs "$ROOT/build/cuda/bin"
                              --cuda-libraries "$COXSWAIN_CACHE/cuda/site/nvidia");;
  esac
  BUILDER="${BUILDAH[*]}" BASE_IMAGE=localhost/base:1 \
    "$ROOT/docker/build.sh" --repository localhost/coxswain --programs "$ROOT/build/release/bin" \
    "${cuda[@]}" --archive "$IMAGES" "$@"
}

make_images() {
  local name ours=() on_ours=()
  for name in "$@"; do
    case $name in
      pause) make_pause;;
      base) make_base;;
      pytorch) make_base; make_pytorch;;
      mxnet) make_base; make_mxnet;;
      tensorflow) make_base; make_tensorflow;;
      mpi4py) on_ours+=("$name");;
      operator|trainer-cpu|trainer-cuda) ours+=("$name");;
      *) usage_error;;
    esac
  done
  [ ${#ours[@]} -eq 0 ] || { make_base; make_ours "${ours[@]}"; }
  [ ${#on_ours[@]} -eq 0 ] || make_mpi4py  # after what it is built from
}

[ "$(id -u)" = 0 ] || die "root needed"
export BUILDAH_ISOLATION=chroot
for tool in gcc jq debootstrap buildah; do need $tool $tool; done
mkdir -p "$IMAGES"
# One at a time: they write the same archives.
exec 9>"$IMAGES/.lock"
flock -w 1800 9 || die "another images.sh holds $IMAGES/.lock for half an hour"
WORK=$(mktemp -d "$IMAGES/work.XXXXXX"); trap 'rm -rf "$WORK"' EXIT
[ $# -gt 0 ] || set -- pause base operator trainer-cpu
make_images "$@"
