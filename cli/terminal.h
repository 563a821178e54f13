// What the terminal can do, and where words go: data to stdout, messages to stderr. Color needs a
// terminal and no NO_COLOR in the environment (no-color.org). Also the flag that Ctrl-C raises:
// long waits look at it, so that a command ends in order instead of in the middle.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shoal::cli {

enum class Color { kNone, kBold, kDim, kGreen, kYellow, kRed };

struct Terminal {
  bool stdout_is_tty = false, stderr_is_tty = false;
  bool stdout_color = false, stderr_color = false;
};
const Terminal& terminal();  // probed once
int stderr_columns();        // now; 80 when unknown

std::string paint(std::string_view text, Color color, bool enabled);
std::size_t display_width(std::string_view utf8);

// Green for what works, yellow for what waits, red for what failed. Any word of the API.
Color color_of_state(std::string_view state);

void say(std::string_view message);  // one line to stderr
void print(std::string_view text);   // to stdout, flushed

// From the first call on, SIGINT and SIGTERM raise a flag instead of ending the process.
void catch_interrupts();
bool interrupted();
double now_s();  // of a clock that never goes back
// Sleeps, but not longer than until a signal. False when interrupted.
bool pause_for(double seconds);

}  // namespace shoal::cli
