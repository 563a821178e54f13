# shellcheck shell=bash
# The repository's own files, NUL-terminated: sources PATTERN…  Untracked ones count, ignored ones do not.
sources() {
  git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard --deduplicate -- "$@" |
    while IFS= read -r -d '' file; do
      if [[ -f $file ]]; then printf '%s\0' "$file"; fi
    done
}
