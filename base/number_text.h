// Numbers that people type. What is not a number, or not a finite one, is refused by the command
// line itself: a range check that compares lets NaN pass.
#pragma once

#include <string>

namespace shoal {

// Empty when `text` is a number from `least` to `most`, both finite; else what is wrong with it.
std::string number_problem(const std::string& text, double least, double most);

}  // namespace shoal
