// The process-wide terminal state: ttys, colors and the interrupt flag.
#include "cli/terminal.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

namespace shoal::cli {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) { g_interrupted = 1; }

Terminal probe() {
  Terminal found;
  found.stdout_is_tty = isatty(STDOUT_FILENO) != 0;
  found.stderr_is_tty = isatty(STDERR_FILENO) != 0;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool wanted = (!no_color || !*no_color) && !(term && std::string_view(term) == "dumb");
  found.stdout_color = wanted && found.stdout_is_tty;
  found.stderr_color = wanted && found.stderr_is_tty;
  return found;
}

const char* escape_of(Color color) {
  switch (color) {
    case Color::kNone:
      return "";
    case Color::kBold:
      return "\033[1m";
    case Color::kDim:
      return "\033[2m";
    case Color::kGreen:
      return "\033[32m";
    case Color::kYellow:
      return "\033[33m";
    case Color::kRed:
      return "\033[31m";
  }
  return "";
}

}  // namespace

const Terminal& terminal() {
  static const Terminal found = probe();
  return found;
}

int stderr_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string paint(std::string_view text, Color color, bool enabled) {
  if (!enabled || color == Color::kNone) return std::string(text);
  return escape_of(color) + std::string(text) + "\033[0m";
}

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

Color color_of_state(std::string_view state) {
  static constexpr std::array kGood = {"completed", "training", "active",  "serving",
                                       "committed", "stored",   "green",   "idle",
                                       "info",      "served",   "followed"};
  static constexpr std::array kBad = {"failed", "gone", "aborted",  "red",
                                      "error",  "lost", "rejected", "cancelled"};
  if (std::find(kGood.begin(), kGood.end(), state) != kGood.end()) return Color::kGreen;
  if (std::find(kBad.begin(), kBad.end(), state) != kBad.end()) return Color::kRed;
  return state.empty() || state == "-" ? Color::kNone : Color::kYellow;
}

void say(std::string_view message) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a blocking call returns
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return g_interrupted != 0; }

bool pause_for(double seconds) {
  timespec left{
      static_cast<time_t>(seconds),
      static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  if (!interrupted()) nanosleep(&left, nullptr);
  return !interrupted();
}

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace shoal::cli
