#!/usr/bin/env bash
# package.sh BUILD: makes the Debian packages of a finished build and, where lintian is installed, judges them.
# Exit code 1 when lintian finds an error.
set -euo pipefail
cd "$1"
rm -f package/*.deb
cpack --config CPackConfig.cmake >package/cpack.log 2>&1 || {
  cat package/cpack.log >&2
  exit 1
}
ls package/*.deb
if ! command -v lintian >/dev/null; then
  echo "without lintian here: the packages were not judged" >&2
  exit 0
fi
# Packages that no archive signs may be built as root.
lintian --allow-root --fail-on error --tag-display-limit 0 package/*.deb
