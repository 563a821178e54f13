// shoal-line: lines between network namespaces that are as slow, far and lossy as a file says.
#include <csignal>
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <sys/signalfd.h>
#include <unistd.h>

#include "bench/line/control.h"
#include "bench/line/forwarder.h"
#include "threads/file_content.h"

namespace shoal::bench {
namespace {

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

int complain(const Error& error) {
  std::fprintf(stderr, "shoal-line: %s\n", to_string(error).c_str());
  return 1;
}

void obey(std::string_view text, LineSetup& setup, Forwarder& forwarder) {
  const auto order = parse_order(text, setup);
  if (!order.ok()) return say(error_text(order.error()));
  if (order->host < 0) return say(counts_text(setup, forwarder.counts()));
  setup.hosts[static_cast<std::size_t>(order->host)].lines = order->lines;
  forwarder.set(order->host, order->lines);
  say(R"({"ok":true})");
}

Descriptor ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return Descriptor(signalfd(-1, &signals, SFD_CLOEXEC));
}

int run(const std::string& file) {
  auto setup = parse_setup(file_content(file).value_or(""));
  if (!setup.ok()) {
    Error error = setup.error();
    error.field = error.code == Code::kInvalidArgument ? file : file + ": " + error.field;
    return complain(error);
  }
  const Descriptor stop = ending_signals();
  const auto forwarder = Forwarder::open(*setup);
  if (!forwarder.ok()) return complain(forwarder.error());
  say(R"({"ready":true})");
  (*forwarder)->run(STDIN_FILENO, stop.get(), [&](std::string_view order) {
    obey(order, *setup, **forwarder);
  });
  say(counts_text(*setup, (*forwarder)->counts()));
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  CLI::App app(
      "Joins network namespaces by lines with a rate, delay, jitter, loss and reordering.\n"
      "FILE and the orders that it takes on its input, a line each, are JSON\n"
      "(bench/line/control.h); every order is answered by a line. It ends with its input, or by\n"
      "SIGINT or SIGTERM, and then says what each line has passed, lost and dropped.");
  app.name("shoal-line");
  std::string file;
  app.add_option("FILE", file, "Hosts and their lines")->required()->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  return shoal::bench::run(file);
}
