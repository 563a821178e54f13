// See worker.h.
#include "bench/streams/worker.h"

#include <algorithm>
#include <sstream>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "bench/cpu_seconds.h"
#include "bench/streams/talk.h"

namespace shoal::bench {
namespace {

constexpr int kMessagesBeforeCancel = 100;

std::string failed(const Error& error) { return "failed " + to_string(error); }

std::string enter(const std::string& name_space) {
  if (name_space.empty()) return "";
  const std::string path = "/run/netns/" + name_space;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
  if (fd >= 0) close(fd);
  return entered ? "" : "failed cannot enter " + path;
}

// p50 and p99 of one way, in ns.
std::string quantiles(std::vector<std::int64_t> both_ways) {
  if (both_ways.empty()) return "0 0";
  std::ranges::sort(both_ways);
  const std::size_t last = both_ways.size() - 1;
  return std::to_string(both_ways[last / 2] / 2) + " " +
         std::to_string(both_ways[last * 99 / 100] / 2);
}

}  // namespace

Worker::Worker(WorkerOptions options, const Identity& identity)
    : options_(std::move(options)), identity_(identity) {}

std::string Worker::listen(const std::string& kind) {
  if (const std::string problem = enter(options_.name_space); !problem.empty()) return problem;
  if (kind == "bare") {
    bare_ = std::make_unique<BareTls>(options_.place, identity_);
    const auto address = bare_->listen();
    return address.ok() ? *address : failed(address.error());
  }
  Memory::touch();
  const Accept accept = [](const std::string& purpose) { return make_answerer(purpose); };
  auto& contender = contenders_[kind];
  if (kind == "streams") {
    contender = make_streams(options_.place, &identity_, false, accept);
  } else {
    contender = make_streams(options_.place, nullptr, kind == "streams-unix", accept);
  }
  const auto address = contender->listen();
  return address.ok() ? *address : failed(address.error());
}

std::string Worker::obey(const std::string& command) {
  std::istringstream words(command);
  std::string verb, kind;
  words >> verb >> kind;
  if (verb == "cpu") return std::to_string(cpu_seconds());
  if (verb == "gone") return std::to_string(last_gone_ns());
  if (verb == "listen") return listen(kind);
  if (verb == "connect") {
    std::vector<std::string> addresses;
    for (std::string each; words >> each;) addresses.push_back(each);
    processes_ = addresses.size();
    const Status done =
        kind == "bare" ? bare_->connect(addresses) : contenders_.at(kind)->connect(addresses);
    return done ? "ready" : failed(done.error());
  }
  if (verb == "handshake") return run_handshake(kind);
  if (verb == "cancel") return run_cancel(kind);
  std::int64_t size = 0;
  int count = 0;
  words >> size >> count;
  if (verb == "flow") return run_flow(kind, size);
  return run_ping(kind, static_cast<std::size_t>(size), count);
}

// A butterfly of `bytes`: to each peer a contribution for its part, and from it the average of it;
// the same for our part. Bare sockets carry as many bytes without waiting for any of them.
std::string Worker::run_flow(const std::string& kind, std::int64_t bytes) {
  const std::int64_t part = bytes / static_cast<std::int64_t>(processes_);
  std::vector<int> peers;
  for (int rank = 0; rank < static_cast<int>(processes_); ++rank) {
    if (rank != options_.place.rank) peers.push_back(rank);
  }
  const std::int64_t began = monotonic_ns();
  const Status done = kind == "bare" ? bare_->flow(2 * part)
                                     : flow(*contenders_.at(kind), peers, part, options_.message);
  return done ? std::to_string(monotonic_ns() - began) : failed(done.error());
}

std::string Worker::run_ping(const std::string& kind, std::size_t size, int count) {
  if (kind != "bare" && options_.place.rank != 0) return "0 0";
  const auto times =
      kind == "bare" ? bare_->ping(size, count) : ping(*contenders_.at(kind), 1, size, count);
  return times.ok() ? quantiles(*times) : failed(times.error());
}

std::string Worker::run_handshake(const std::string& kind) {
  if (options_.place.rank != 0) return "0";
  const auto took = handshake(*contenders_.at(kind), 1);
  return took.ok() ? std::to_string(*took) : failed(took.error());
}

std::string Worker::run_cancel(const std::string& kind) {
  if (options_.place.rank != 0) return "0 0";
  const auto done =
      cancel_under_way(*contenders_.at(kind), 1, options_.message, kMessagesBeforeCancel);
  if (!done.ok()) return failed(done.error());
  return std::to_string(done->at_ns) + " " + std::to_string(done->freed_ns);
}

}  // namespace shoal::bench
