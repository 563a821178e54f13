// Numbers that people type or read. Command lines refuse what is not a finite number themselves: a
// range check that compares lets NaN pass.
#pragma once

#include <string>

namespace shoal {

// Empty when `text` is a number from `least` to `most`, both finite; else what is wrong with it.
std::string number_problem(const std::string& text, double least, double most);

// Three significant figures, which is enough in every message and table: "4.40", "26.2", "418".
std::string three_figures(double value);
// Bytes in decimal units, as all messages and pages have them: "512 B", "4.40 MB", "2.90 GB".
std::string size_text(double bytes);

}  // namespace shoal
