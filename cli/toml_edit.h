// Changes one field of a TOML text and leaves the rest as it was written: order, spaces, comments.
// What TOML allows (inline tables, dotted keys, tables opened twice over) is not taken apart here;
// there are a few places where the field can stand, and the caller, who knows what the text should
// then mean, takes the first that means it.
#pragma once

#include <string>
#include <vector>

namespace shoal::cli {

// Texts in which the field may have the value, the likeliest first. `path` holds the keys from the
// top, `value` is TOML.
std::vector<std::string> with_field(const std::string& text, const std::vector<std::string>& path,
                                    const std::string& value);

}  // namespace shoal::cli
