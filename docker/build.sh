#!/bin/bash
# build.sh [OPTION...] [operator|trainer-cpu|trainer-cuda]...    build images, with docker or buildah
#
# Without a name: operator and trainer-cpu.
#   --cuda                trainer-cuda too, for NVIDIA's GPUs
#   --repository PREFIX   name them PREFIX/operator:VERSION and so on (coxswain)
#   --programs DIR        take the programs from DIR instead of building them in a container; they
#                         must be built on Debian 12 (cmake/build.sh release: build/release/bin)
#   --cuda-programs DIR   the same of trainer-cuda's (cmake/build.sh cuda coxswain-trainer)
#   --cuda-libraries DIR  and of CUDA's wheels (~/.cache/coxswain/cuda/site/nvidia)
#   --archive DIR         write DIR/operator.tar and so on: docker archives, not compressed
#
# Environment:
#   BASE_IMAGE         debian:bookworm-slim; name it with @sha256:... to pin it
#   BUILDER            the command: docker or buildah, as found; with its own flags if need be
#   SOURCE_DATE_EPOCH  the date of all files, 0. With buildah the same base, packages and programs
#                      then give the same image; docker keeps the dates of what it copies.
#   http_proxy, https_proxy, no_proxy    for fetching packages
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VERSION=$(sed -n 's/^project(coxswain VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")

die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }

find_builder() {
  if docker info >/dev/null 2>&1; then echo docker
  elif command -v buildah >/dev/null; then echo buildah
  else die "neither a running docker nor buildah is here; install one of them"; fi
}

flags_of_buildah() {
  # --pull=false: a base that is here needs no registry; one that is not is fetched all the same.
  flags+=(--layers --timestamp "${SOURCE_DATE_EPOCH:-0}" --pull=false)
}

flags_of_docker() {
  local name
  flags+=(--build-arg "SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}")
  for name in http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || flags+=(--build-arg "$name=${!name}")
  done
}

# build TARGET TAG    its log stays if it fails
build() {
  local log
  local flags=(--file "$ROOT/docker/Dockerfile" --target "$1" --tag "$2"
               --build-arg "BASE_IMAGE=${BASE_IMAGE:-debian:bookworm-slim}")
  [ -z "$programs" ] || flags+=(--build-context "programs=$programs")
  [ -z "$cuda_programs" ] || flags+=(--build-context "cuda-programs=$cuda_programs")
  [ -z "$cuda_libraries" ] || flags+=(--build-context "cuda-libraries=$cuda_libraries")
  "flags_of_$tool"
  log=$(mktemp -t "coxswain-$1.XXXXXX.log")
  printf 'building %s: this may take several minutes; log: %s\n' "$1" "$log"
  "${builder[@]}" build "${flags[@]}" "$ROOT" >"$log" 2>&1 ||
    { tail -40 "$log" >&2; die "$1 could not be built; its last words are above, all are in $log"; }
  rm -f "$log"
}

# write_archive TAG FILE
write_archive() {
  case $tool in
    docker) "${builder[@]}" save --output "$2.part" "$1";;
    buildah) "${builder[@]}" push -q "$1" "docker-archive:$2.part:$1" >/dev/null;;
  esac
  mv "$2.part" "$2"
}

max_megabytes() {
  case $1 in operator) echo 40;; trainer-cpu) echo 250;; trainer-cuda) echo 2500;; esac
}

make_image() {
  local target=$1 tag=$repository/$1:$VERSION file=$archives/$1.tar start=$SECONDS megabytes
  build "$target" "$tag"
  rm -f "$file.part"
  write_archive "$tag" "$file"
  megabytes=$(( ($(stat -c %s "$file") + 999999) / 1000000 ))
  printf '%s: %d MB of at most %d, %d s\n' "$tag" "$megabytes" "$(max_megabytes "$target")" \
    $((SECONDS - start))
  [ "$megabytes" -le "$(max_megabytes "$target")" ] ||
    die "$target grew too big: see what its packages pull in (docker/Dockerfile)"
}

repository=coxswain programs='' cuda_programs='' cuda_libraries='' archives='' cuda=false targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --repository|--programs|--cuda-programs|--cuda-libraries|--archive)
      [ $# -gt 1 ] || die "$1 takes a value; see build.sh --help"
      case $1 in
        --repository) repository=$2;;
        --programs) programs=$2;;
        --cuda-programs) cuda_programs=$2;;
        --cuda-libraries) cuda_libraries=$2;;
        --archive) archives=$2;;
      esac
      shift 2;;
    --cuda) cuda=true; shift;;
    operator|trainer-cpu|trainer-cuda) targets+=("$1"); shift;;
    -h|--help) usage; exit;;
    *) die "no image or option '$1'; see build.sh --help";;
  esac
done
[ ${#targets[@]} -gt 0 ] || targets=(operator trainer-cpu)
if $cuda; then targets+=(trainer-cuda); fi
for program in ${programs:+"$programs"/coxswain "$programs"/coxswain-trainer} \
               ${cuda_programs:+"$cuda_programs"/coxswain-trainer}; do
  [ -x "$program" ] || die "no program $program: cmake/build.sh makes it"
done
read -ra builder <<<"${BUILDER:-$(find_builder)}"
tool=$(basename "${builder[0]}")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
[ -n "$archives" ] || archives=$work
mkdir -p "$archives"
for target in "${targets[@]}"; do make_image "$target"; done
