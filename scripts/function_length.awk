# Prints functions over 70 lines. A function is taken to begin at a line that starts in the first two columns
# of its scope, ends in ") {" (with const, noexcept, override or an initializer in between) and is no control
# statement, and to end at the closing brace of the same indentation. That is how clang-format lays out
# every function here; lambdas count as part of what holds them.
BEGIN {
  limit = 70
  while ((getline line < allowed) > 0) {
    if (line ~ /^#/ || line == "") continue
    split(line, word, " ")
    longest[word[1] " " word[2]] = word[3]
  }
}
FNR == 1 { inside = 0; header = "" }
!inside && (/\\$/ || /= *[{] *$/) {  # a macro, a table
  header = ""
  next
}
!inside && /^ *[A-Za-z_~].*[(]/ && !/;[ ]*(\/\/.*)?$/ &&
    !/^ *(if|for|while|switch|return|else|do|namespace|class|struct|enum|union|case|TEST|static_assert|using)[ (]/ {
  header = $0
  header_line = FNR
}
!inside && header != "" && /[{] *$/ {
  match(header, /^ */)
  indent = RLENGTH
  if (indent <= 4) {
    inside = 1
    name = header
    sub(/[(].*/, "", name)
    sub(/.*[ *&]/, "", name)
    start = header_line
  }
  header = ""
}
!inside && /[;}] *(\/\/.*)?$/ { header = "" }
inside {
  match($0, /^ */)
  if (RLENGTH == indent && $0 ~ /^ *}/) {
    length_now = FNR - start + 1
    key = FILENAME " " name
    bound = (key in longest) ? longest[key] : limit
    if (length_now > bound) printf "%s:%d: %s has %d lines, at most %d\n", FILENAME, start, name, length_now, bound
    inside = 0
  }
}
