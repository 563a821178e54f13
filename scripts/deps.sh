#!/usr/bin/env bash
# Installs the packages of debian-packages.txt that are missing; --print lists all of them. On a system that
# is not Debian it prints the list and lets the build find out.
set -euo pipefail
list=$(dirname "${BASH_SOURCE[0]}")/debian-packages.txt
mapfile -t packages < <(awk '!/^#/ && NF { print $1 }' "$list")

if [[ ${1:-} == --print ]]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This system has no apt. Shoal needs what these Debian 12 packages hold:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 0
fi

# A package counts as there too when another one provides it (pkgconf gives pkg-config).
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  if [[ $status != installed ]]; then missing+=("$package"); fi
done
if ((${#missing[@]} == 0)); then exit 0; fi

echo "Installing ${#missing[@]} Debian packages: ${missing[*]}" >&2
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "error: these packages are missing, you are not root and there is no sudo" >&2
    echo "hint: have an administrator run: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@"
}
if ! apt update; then
  echo "warning: apt-get update failed; trying with the lists at hand" >&2
fi
if ! apt install -y --no-install-recommends "${missing[@]}" >&2; then
  echo "error: apt-get could not install: ${missing[*]}" >&2
  echo "hint: see the messages above; Shoal is built on Debian 12 (bookworm), 'main' is enough" >&2
  exit 1
fi
