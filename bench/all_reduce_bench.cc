// The all-reduce of the outer step between real processes, beside gloo's ring in the same run: on
// loopback, or each in a network namespace with a line of its own (scripts/bench_lines.sh). Over
// lines, a kind is held against the least time in which its bytes could pass. Every kind is
// repeated in turn, so that a disturbance hits all of them; a repetition takes as long as its
// slowest process. Gloo sums in place, its fastest way; ours leaves the pseudo-gradient untouched,
// divides, and takes the digest of the average, as every round does. Bare TLS sockets (kind `tls`)
// only carry the bytes of an fp32 butterfly.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <unistd.h>

#include "base/check.h"
#include "base/prng.h"
#include "bench/bench.h"
#include "bench/cpu_seconds.h"
#include "bench/gloo_ring.h"
#include "bench/streams/bare_tls.h"
#include "bench/streams/identities.h"
#include "bench/worker_processes.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/round/topology.h"
#include "outer_opt/transport/peer_node.h"

namespace shoal::bench {
namespace {

// After the codec, in the name of a kind.
constexpr char kEqualParts[] = "/equal";
constexpr char kRing[] = "/ring";
constexpr char kDecoded[] = "/decoded";
// Kinds that are no codec.
constexpr char kGloo[] = "gloo", kBareTls[] = "tls";

CodecKind codec_of(const std::string& kind) {
  for (const CodecKind codec : outer_opt::kDenseCodecs) {
    if (kind.substr(0, kind.find('/')) == to_string(codec)) return codec;
  }
  SHOAL_CHECK(false, "the command line has checked the names");
}

std::vector<double> equal_shares(const AllReduceOptions& options) {
  return std::vector<double>(static_cast<std::size_t>(options.processes), 1.0 / options.processes);
}

std::vector<double> bytes_per_s(const AllReduceOptions& options) {
  std::vector<double> rates;
  for (const double mbit : options.mbit) rates.push_back(mbit * 1e6 / 8);
  return rates;
}

// Bytes per second at least, between processes of one host.
constexpr double kLoopback = 1e9;

std::vector<outer_opt::LinkedMember> lines_of(const AllReduceOptions& options) {
  std::vector<outer_opt::LinkedMember> members;
  for (const double rate : bytes_per_s(options)) members.push_back({true, rate});
  if (members.empty()) members.push_back({true, kLoopback});
  return members;
}

std::vector<double> shares_of(const AllReduceOptions& options) {
  return options.mbit.empty() ? equal_shares(options) : outer_opt::part_shares(lines_of(options));
}

bool unequal_lines(const AllReduceOptions& options) {
  return std::any_of(options.mbit.begin(), options.mbit.end(),
                     [&](double mbit) { return mbit != options.mbit[0]; });
}

// The time that the lines need for the bytes of this kind, however they are driven; 0 for gloo.
double least_seconds(const AllReduceOptions& options, const std::string& kind) {
  if (options.mbit.empty() || kind == kGloo || kind == kBareTls) return 0;
  const auto bytes = outer_opt::codec(codec_of(kind)).encoded_size(options.values);
  const double best = outer_opt::butterfly_time(shares_of(options), bytes_per_s(options));
  return static_cast<double>(bytes) * best;
}

// Normal values, in runs of 1,000 with a scale of their own, as the layers of a model have.
std::vector<float> pseudo_gradient(int rank, std::int64_t n) {
  Prng prng(static_cast<std::uint64_t>(rank) + 1);
  std::vector<float> values(static_cast<std::size_t>(n));
  float scale = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 1000 == 0) scale = 0.001f * static_cast<float>(1 + prng.below(10));
    values[i] = scale * static_cast<float>(prng.normal());
  }
  return values;
}

// One process: node, vectors and what it was told.
class Member {
 public:
  // Without `identity` there are no certificates.
  Member(int rank, const AllReduceOptions& options, std::string folder, const Identity* identity)
      : rank_(rank), options_(options), folder_(std::move(folder)), identity_(identity) {}

  std::string obey(const std::string& command) {
    std::istringstream words(command);
    std::string verb;
    words >> verb;
    if (verb == "start") return start();
    if (verb == "members") return meet(words);
    if (verb == "measure") return measure();
    if (verb == "listen") return listen_bare();
    if (verb == "dial") return dial_bare(words);
    const auto begin = std::chrono::steady_clock::now();
    const double cpu_begin = cpu_seconds();
    std::int64_t sent = 0;
    const std::string failure = verb == kGloo      ? run_gloo()
                                : verb == kBareTls ? run_bare(sent)
                                                   : run_ours(verb, sent);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (!failure.empty()) return "failed " + failure;
    return std::to_string(spent.count()) + " " + std::to_string(sent) + " " +
           std::to_string(cpu_seconds() - cpu_begin);
  }

 private:
  std::string host() const { return options_.hosts.empty() ? "127.0.0.1" : options_.hosts[rank_]; }

  std::vector<double> expected_front() const {
    std::vector<double> front(std::min<std::size_t>(input_.size(), 4096));
    for (int rank = 0; rank < options_.processes; ++rank) {
      const auto values = pseudo_gradient(rank, std::ssize(front));
      for (std::size_t i = 0; i < front.size(); ++i) front[i] += values[i] / options_.processes;
    }
    return front;
  }

  std::string enter_namespace() const {
    if (options_.namespaces.empty()) return "";
    const std::string path = "/run/netns/" + options_.namespaces[rank_];
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (fd >= 0) close(fd);
    return entered ? "" : "failed cannot enter " + path;
  }

  std::string start() {
    if (const std::string failure = enter_namespace(); !failure.empty()) return failure;
    input_ = pseudo_gradient(rank_, options_.values);
    average_.assign(input_.size(), 0.0f);
    expected_ = expected_front();
    outer_opt::PeerNodeOptions node_options;
    node_options.bind = host() + ":0";
    node_options.local_sockets = !options_.tcp && identity_ == nullptr;
    node_options.certificates = identity_ != nullptr;
    auto node = outer_opt::PeerNode::start(node_options);
    if (!node.ok()) return "failed " + to_string(node.error());
    node_ = std::move(node).value();
    if (identity_ != nullptr) {
      node_->set_identity(std::make_shared<const outer_opt::PeerIdentity>(outer_opt::PeerIdentity{
          identity_->cluster, identity_->name, identity_->contexts, identity_->credentials}));
    }
    return node_->address();
  }

  std::string listen_bare() {
    bare_ = std::make_unique<BareTls>(Place{rank_, host()}, *identity_);
    const auto address = bare_->listen();
    return address.ok() ? *address : "failed " + to_string(address.error());
  }

  std::string dial_bare(std::istringstream& addresses) {
    std::vector<std::string> all;
    for (std::string address; addresses >> address;) all.push_back(address);
    const Status connected = bare_->connect(all);
    return connected.ok() ? "ready" : "failed " + to_string(connected.error());
  }

  std::string meet(std::istringstream& addresses) {
    plan_.key = {JobId(1), 0, 0};
    plan_.value_count = options_.values;
    plan_.time_limit = seconds(120);
    std::string address;
    for (std::uint64_t i = 1; addresses >> address; ++i) {
      plan_.members.push_back({ReplicaId(i), address, 1, 1, 0, 0});
    }
#ifdef SHOAL_HAVE_GLOO
    gloo_ = join_gloo_ring(rank_, options_.processes, folder_, host());
#endif
    return "ready";
  }

  // The lines to half of the circle, as a coordinator orders it, so that all pairs are measured.
  std::string measure() {
    std::vector<PeerAddress> peers;
    for (std::size_t i = 1; i <= plan_.members.size() / 2; ++i) {
      const auto& peer = plan_.members[(rank_ + i) % plan_.members.size()];
      peers.push_back({peer.replica, peer.address});
    }
    std::set<ReplicaId> missing;
    for (const PeerAddress& peer : peers) missing.insert(peer.replica);
    const auto begin = std::chrono::steady_clock::now();
    auto ask_again = begin;
    while (!missing.empty()) {
      const auto now = std::chrono::steady_clock::now();
      if (now > begin + std::chrono::seconds(60)) return "failed to measure the lines";
      if (now >= ask_again) {  // as every round does, while a line is not known
        std::erase_if(peers,
                      [&](const PeerAddress& peer) { return !missing.contains(peer.replica); });
        node_->measure(plan_.members[rank_].replica, peers);
        ask_again = now + std::chrono::seconds(15);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (const LinkEstimate& link : node_->take_links()) {
        if (link.to_per_s > 0) missing.erase(link.peer);
      }
    }
    return "ready";
  }

  std::string run_ours(const std::string& kind, std::int64_t& sent) {
    const std::string codec = kind.substr(0, kind.find('/'));
    ++plan_.key.round;
    plan_.attempt = 1;
    const bool ring = kind.ends_with(kRing);
    plan_.topology = ring ? Topology::kRing : Topology::kButterfly;
    const bool equal = ring || kind.ends_with(kEqualParts);
    assign_parts(plan_, equal ? equal_shares(options_) : shares_of(options_));
    plan_.codec = codec_of(codec);
    plan_.frame_values = options_.frame_values > 0
                             ? options_.frame_values
                             : outer_opt::frame_values_for(plan_.codec, lines_of(options_));
    plan_.entropy_coding = !options_.plain && !options_.mbit.empty() &&
                           outer_opt::pays_entropy_coding(plan_.codec, lines_of(options_));
    const bool keeps_frames =
        outer_opt::AverageFrames::suit(plan_, plan_.frame_values) && !kind.ends_with(kDecoded);
    const outer_opt::AverageRoom room = keeps_frames ? room_for_frames() : average_;
    const auto result = node_->reduce(plan_, plan_.members[rank_].replica, {input_, {}}, room, {});
    if (!result.ok) return result.error.detail;
    sent = result.outcome.stats.sent.count();
    if (keeps_frames) decode_front();
    return is_average() ? "" : "the average is wrong";
  }

  // As a replica keeps an average until its commit.
  outer_opt::AverageRoom room_for_frames() {
    const std::size_t bytes = outer_opt::AverageFrames(plan_, plan_.frame_values).bytes();
    if (frames_.size() < bytes) frames_.resize(bytes);
    return outer_opt::AverageRoom::for_frames(std::span(frames_).first(bytes), sums_);
  }

  void decode_front() {
    const outer_opt::AverageFrames frames(plan_, plan_.frame_values);
    frames.visit(std::span(frames_).first(frames.bytes()), {0, std::ssize(expected_)},
                 [this](std::int64_t first, std::span<const float> run) {
                   std::ranges::copy(run, average_.begin() + first);
                 });
  }

  // As far as a codec of 4 bits lets it be.
  bool is_average() const {
    double squares = 0, errors = 0;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      squares += expected_[i] * expected_[i];
      errors += (average_[i] - expected_[i]) * (average_[i] - expected_[i]);
    }
    return errors < 0.1 * squares;
  }

  std::string run_gloo() {
#ifdef SHOAL_HAVE_GLOO
    gloo_->all_reduce(average_);
#endif
    return "";
  }

  // The part of each other owner goes there, and comes back averaged.
  std::string run_bare(std::int64_t& sent) {
    const auto part = options_.values * std::int64_t{sizeof(float)} / options_.processes;
    sent = 2 * part * (options_.processes - 1);
    for (int way = 0; way < 2; ++way) {
      if (const Status done = bare_->flow(part); !done.ok()) return to_string(done.error());
    }
    return "";
  }

  const int rank_;
  const AllReduceOptions& options_;
  const std::string folder_;
  const Identity* const identity_;
  std::vector<float> input_, average_;
  std::vector<std::byte> frames_;
  outer_opt::SpareValues sums_;
  std::vector<double> expected_;  // the front of the average
  std::unique_ptr<outer_opt::PeerNode> node_;
  std::unique_ptr<GlooRing> gloo_;
  std::unique_ptr<BareTls> bare_;
  ReducePlan plan_;
};

struct Series {
  std::vector<double> seconds, cpu_seconds;  // of the slowest process, of all together
  std::int64_t bytes_sent = 0;               // per process
};

bool add(const std::vector<std::string>& answers, Series& series) {
  double slowest = 0, cpu = 0;
  for (const std::string& answer : answers) {
    std::istringstream words(answer);
    double spent = 0, cpu_spent = 0;
    if (!(words >> spent >> series.bytes_sent >> cpu_spent)) {
      std::fprintf(stderr, "shoal-bench: %s\n", answer.c_str());
      return false;
    }
    slowest = std::max(slowest, spent);
    cpu += cpu_spent;
  }
  series.seconds.push_back(slowest);
  series.cpu_seconds.push_back(cpu);
  return !answers.empty();
}

std::vector<std::string> codecs_of(const AllReduceOptions& options) {
  const auto& asked = options.codecs;
  if (std::find(asked.begin(), asked.end(), kAllCodecs) == asked.end()) return asked;
  std::vector<std::string> all;
  for (const CodecKind codec : outer_opt::kDenseCodecs) all.emplace_back(to_string(codec));
  return all;
}

std::vector<std::string> kinds_of(const AllReduceOptions& options) {
  std::vector<std::string> kinds;
  for (const std::string& codec : codecs_of(options)) {
    kinds.push_back(codec);
    if (unequal_lines(options)) kinds.push_back(codec + kEqualParts);
    if (options.ring && !unequal_lines(options)) kinds.push_back(codec + kRing);
    if (options.decoded) kinds.push_back(codec + kDecoded);
  }
  if (options.tls) kinds.emplace_back(kBareTls);
#ifdef SHOAL_HAVE_GLOO
  if (!options.alone) kinds.emplace_back(kGloo);
#endif
  return kinds;
}

bool all_ready(const std::vector<std::string>& answers) {
  const auto bad = std::find_if(answers.begin(), answers.end(),
                                [](const std::string& answer) { return answer != "ready"; });
  if (bad != answers.end()) std::fprintf(stderr, "shoal-bench: %s\n", bad->c_str());
  return !answers.empty() && bad == answers.end();
}

// Tells everybody the addresses at which all have begun to listen.
bool introduce(WorkerProcesses& workers, const std::string& listen, std::string meet) {
  for (const std::string& address : workers.ask(listen)) meet += " " + address;
  return all_ready(workers.ask(meet));
}

bool measure(const AllReduceOptions& options, const std::string& folder,
             std::map<std::string, Series>& results) {
  const auto identities = make_identities(options.tls ? options.processes : 0);
  WorkerProcesses workers(options.processes, [&](int rank) {
    const Identity* identity = options.tls ? &identities[static_cast<std::size_t>(rank)] : nullptr;
    auto member = std::make_shared<Member>(rank, options, folder, identity);
    return [member](const std::string& command) { return member->obey(command); };
  });
  if (!introduce(workers, "start", "members")) return false;
  if (options.tls && !introduce(workers, "listen", "dial")) return false;
  if (!options.mbit.empty() && !all_ready(workers.ask("measure"))) return false;
  for (int i = 0; i <= options.repeats; ++i) {
    for (const std::string& kind : kinds_of(options)) {
      Series warm_up;  // the first of each connects and touches the pages
      if (!add(workers.ask(kind), i == 0 ? warm_up : results[kind])) return false;
    }
  }
  return true;
}

void print(const AllReduceOptions& options, const std::map<std::string, Series>& results) {
  const double gb = static_cast<double>(options.values) * sizeof(float) * 1e-9;
  const auto gloo = results.find(kGloo);
  const double ring_s = gloo == results.end() ? 0 : median(gloo->second.seconds);
  nlohmann::ordered_json json = {{"name", "all-reduce"},
                                 {"processes", options.processes},
                                 {"values", options.values},
                                 {"tcp", options.tcp},
                                 {"tls", options.tls},
                                 {"plain", options.plain},
                                 {"frame_values", options.frame_values},
                                 {"mbit", options.mbit},
                                 {"repeats", options.repeats}};
  if (!options.json) {
    std::printf("%d processes, %lld values\n", options.processes,
                static_cast<long long>(options.values));
    std::printf("%-13s %9s %10s %13s %7s %10s %11s\n", "kind", "seconds", "GB/s fp32",
                "MB sent each", "x gloo", "cpu s all", "of the line");
  }
  for (const std::string& kind : kinds_of(options)) {
    const Series& series = results.at(kind);
    const double s = median(series.seconds);
    const double cpu_s = median(series.cpu_seconds);
    const double ratio = ring_s > 0 ? ring_s / s : 0;
    const double least_s = least_seconds(options, kind);
    if (!options.json) {
      std::printf("%-13s %9.3f %10.2f %13.1f %7.2f %10.2f", kind.c_str(), s, gb / s,
                  static_cast<double>(series.bytes_sent) * 1e-6, ratio, cpu_s);
      std::printf(least_s > 0 ? " %9.1f %%\n" : "\n", 100 * least_s / s);
    }
    json["results"].push_back({{"kind", kind},
                               {"median_s", s},
                               {"seconds", series.seconds},
                               {"cpu_s_all", cpu_s},
                               {"gb_per_s", gb / s},
                               {"bytes_sent_each", series.bytes_sent},
                               {"line_limit_s", least_s},
                               {"speed_over_gloo", ratio}});
  }
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

namespace {

// The lists name every process, or nothing.
bool fits(const AllReduceOptions& options) {
  const auto count = static_cast<std::size_t>(options.processes);
  const auto good = [&](std::size_t size) { return size == 0 || size == count; };
  return good(options.namespaces.size()) && good(options.mbit.size()) &&
         good(options.hosts.size()) && options.namespaces.empty() == options.hosts.empty();
}

}  // namespace

int run_all_reduce(const AllReduceOptions& options) {
  if (!fits(options)) {
    std::fputs("shoal-bench: give --namespaces, --hosts and --mbit for each process\n", stderr);
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "shoal-bench-XXXXXX").string();
  SHOAL_CHECK(mkdtemp(folder.data()) != nullptr, "no temporary folder");
  std::map<std::string, Series> results;
  const bool good = measure(options, folder, results);
  std::error_code ignored;  // a temporary folder that stays is no failure of the measurement
  std::filesystem::remove_all(folder, ignored);
  if (!good) return std::fputs("shoal-bench: a process failed\n", stderr), 1;
  print(options, results);
  return 0;
}

}  // namespace shoal::bench
