#!/bin/sh
# Provides debian:bookworm-slim, on which the images are built: pulled where a registry can be reached, else made
# of Debian's packages (as root, with mmdebstrap). The same Dockerfiles build on either.
set -eu
image=debian:bookworm-slim
if docker image inspect "$image" >/dev/null 2>&1; then
  echo "$image is there" >&2
  exit 0
fi
if timeout 120 docker pull --quiet "$image" >/dev/null 2>&1; then
  echo "$image was pulled" >&2
  exit 0
fi
echo "$image cannot be pulled: making it of Debian's packages" >&2
command -v mmdebstrap >/dev/null || {
  echo "error: there is no mmdebstrap" >&2
  echo "  hint: install it (Debian: apt install mmdebstrap)" >&2
  exit 2
}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
without() { echo "--dpkgopt=path-exclude=/usr/share/$1/*"; }
mmdebstrap --quiet --variant=minbase "$(without doc)" "$(without man)" "$(without info)" "$(without locale)" \
  bookworm "$directory/base.tar"
docker import "$directory/base.tar" "$image" >/dev/null
echo "$image was made" >&2
