// The command line of the pipeline simulator. Every flag has a value but --json, --cold, --fluid,
// --naive and the like; a wrong one is named.
#include "tests/sim/swarm/command.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "tests/sim/swarm/options.h"
#include "tests/sim/swarm/trace.h"

namespace shoal::sim::swarm {
namespace {

constexpr const char* kUsage =
    "shoal-sim swarm [--agents N] [--stages S] [--rtt MS] [--rtt-matrix \"0,80;80,0\"] [--mtbf H]\n"
    "  [--speeds 1,.5] [--schedule swarm|gpipe|gpipe_blocking|1f1b|sorted_chains|2bw]\n"
    "  [--microbatches B] [--window W]\n"
    "  [--forward MS] [--backward MS] [--payload BYTES] [--mbit M] [--agents-per-uplink K]\n"
    "  [--jitter X] [--state-bytes N] [--steps-per-round H] [--trace FILE] [--steps N]\n"
    "  [--seeds N] [--from SEED]\n"
    "  [--cold] [--no-rebalance] [--response-time] [--naive-timeout S] [--json]\n"
    "shoal-sim swarm --fluid [--agents N] [--stages S] [--life H] [--hours H] [--every S]\n"
    "  [--download S] [--low-water X] [--confirmations N] [--join-random]\n"
    "  [--seeds N] [--from SEED] [--json]\n";

struct Arguments {
  Options options;
  FluidOptions fluid;
  bool is_fluid = false, json = false, help = false;
  std::int64_t seeds = 8, from = 1;
  std::string error;
};

std::vector<double> numbers(const std::string& text, char separator, std::string& error) {
  std::vector<double> values;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, separator);) {
    char* end = nullptr;
    values.push_back(std::strtod(word.c_str(), &end));
    if (word.empty() || *end != '\0') error = "not a number: '" + word + "'";
  }
  return values;
}

void read_matrix(const std::string& text, Arguments& a) {
  a.options.one_way.clear();
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row, ';');) {
    a.options.one_way.emplace_back();
    for (const double ms : numbers(row, ',', a.error)) {
      a.options.one_way.back().push_back(seconds_f(ms / 2000));
    }
  }
}

void read_trace(const std::string& path, Arguments& a) {
  std::ifstream file(path);
  if (!file) return void(a.error = "--trace: cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  auto rows = parse_trace(text.str());
  if (!rows) return void(a.error = "--trace " + path + ", " + rows.error().message);
  a.options.trace = std::move(*rows);
}

void read_schedule(const std::string& text, Arguments& a) {
  for (const Schedule schedule :
       {Schedule::kSwarm, Schedule::kGpipe, Schedule::kGpipeBlocking,
        Schedule::kOneForwardOneBackward, Schedule::kSortedChains, Schedule::kTwoBuffered}) {
    if (text == to_string(schedule)) return void(a.options.schedule = schedule);
  }
  a.error = "--schedule: unknown '" + text + "'";
}

using Setter = std::function<void(double)>;

std::map<std::string, Setter> number_flags(Arguments& a) {
  Options& o = a.options;
  FluidOptions& f = a.fluid;
  const auto ms = [](Duration& d) { return [&d](double v) { d = seconds_f(v / 1000); }; };
  const auto whole = [](auto& n) {
    return [&n](double v) { n = static_cast<std::decay_t<decltype(n)>>(v); };
  };
  return {
      {"--agents", [&](double v) { o.agents = f.agents = static_cast<std::int32_t>(v); }},
      {"--stages", [&](double v) { o.stages = f.stages = static_cast<std::int32_t>(v); }},
      {"--rtt", [&](double v) { o.one_way = {{seconds_f(v / 2000)}}; }},
      {"--mtbf", whole(o.mtbf_h)},
      {"--microbatches", whole(o.microbatches)},
      {"--window", whole(o.window)},
      {"--forward", ms(o.forward)},
      {"--backward", ms(o.backward)},
      {"--payload", whole(o.payload_bytes)},
      {"--mbit", [&](double v) { o.bytes_per_s = v * 1e6 / 8; }},
      {"--agents-per-uplink", whole(o.agents_per_uplink)},
      {"--jitter", whole(o.jitter)},
      {"--state-bytes", whole(o.state_bytes)},
      {"--steps-per-round", whole(o.steps_per_round)},
      {"--steps", whole(o.steps)},
      {"--seeds", whole(a.seeds)},
      {"--naive-timeout",
       [&](double v) {
         o.retrying = Retrying::kTimeout;
         o.response_time = true;
         o.retry_timeout = seconds_f(v);
       }},
      {"--life", whole(f.life_h)},
      {"--hours", whole(f.hours)},
      {"--every", [&](double v) { f.every = seconds_f(v); }},
      {"--download", [&](double v) { f.download = seconds_f(v); }},
      {"--low-water", whole(f.rebalance.low_water)},
      {"--confirmations", whole(f.rebalance.confirmations)},
      {"--from", whole(a.from)},
  };
}

bool read_switch(const std::string& flag, Arguments& a) {
  if (flag == "--json") return a.json = true;
  if (flag == "--help") return a.help = true;
  if (flag == "--fluid") return a.is_fluid = true;
  if (flag == "--cold") return a.options.benchmarked = false, true;
  if (flag == "--no-rebalance") return a.options.rebalance = false, true;
  if (flag == "--response-time") return a.options.response_time = true;
  if (flag == "--join-random") return a.fluid.join_weakest = false, true;
  return false;
}

void read(int argc, char** argv, Arguments& a) {
  const auto setters = number_flags(a);
  for (int i = 1; i < argc && a.error.empty(); ++i) {
    const std::string flag = argv[i];
    if (read_switch(flag, a)) continue;
    if (i + 1 >= argc) return void(a.error = flag + ": unknown, or needs a value");
    const std::string value = argv[++i];
    if (flag == "--speeds") {
      a.options.speeds = a.fluid.speeds = numbers(value, ',', a.error);
    } else if (flag == "--rtt-matrix") {
      read_matrix(value, a);
    } else if (flag == "--trace") {
      read_trace(value, a);
    } else if (flag == "--schedule") {
      read_schedule(value, a);
    } else if (const auto it = setters.find(flag); it != setters.end()) {
      const auto parsed = numbers(value, ' ', a.error);
      if (parsed.size() != 1 || !(parsed[0] >= 0))
        a.error = flag + " needs a number, got '" + value + "'";
      if (a.error.empty()) it->second(parsed[0]);
    } else {
      a.error = "unknown flag '" + flag + "'";
    }
  }
  if (a.error.empty() && !a.is_fluid) a.error = why_not(a.options);
  if (a.error.empty() && a.seeds < 1) a.error = "--seeds must be at least 1";
}

int run_fluid(Arguments& a) {
  double overall = 0, last = 0, moves = 0, loaded = 0, whole = 0;
  for (std::int64_t run = 0; run < a.seeds; ++run) {
    a.fluid.seed = static_cast<std::uint64_t>(a.from + run);
    const FluidMeasured m = simulate_fluid(a.fluid);
    overall += m.of_optimum / static_cast<double>(a.seeds);
    last += m.last_hour / static_cast<double>(a.seeds);
    moves += static_cast<double>(m.moves) / static_cast<double>(a.seeds);
    loaded += m.of_loaded / static_cast<double>(a.seeds);
    whole += m.of_whole / static_cast<double>(a.seeds);
  }
  std::printf(a.json
                  ? "{\"of_optimum\":%.4f,\"of_loaded\":%.4f,\"of_whole\":%.4f,"
                    "\"last_hour\":%.4f,\"moves\":%.1f}\n"
                  : "of the optimum %.4f, of what has loaded %.4f, of that in whole agents %.4f, "
                    "last hour %.4f, %.1f moves\n",
              overall, loaded, whole, last, moves);
  return 0;
}

int run_pipeline(Arguments& a) {
  Measured sum;
  sum.bound = 0;
  const auto n = static_cast<double>(a.seeds);
  for (std::int64_t run = 0; run < a.seeds; ++run) {
    a.options.seed = static_cast<std::uint64_t>(a.from + run);
    const Measured m = simulate(a.options);
    sum.fraction += m.fraction / n;
    sum.bound += m.bound / n;
    sum.virtual_s += m.virtual_s / n;
    sum.step_s_p50 += m.step_s_p50 / n;
    sum.step_s_p99 += m.step_s_p99 / n;
    sum.events += m.events;
    sum.deaths += m.deaths;
    sum.moves += m.moves;
    sum.retries += m.retries;
    sum.wasted += m.wasted;
    sum.routers_lost += m.routers_lost;
    sum.voided += m.voided;
    sum.steps += m.steps;
    sum.bytes += m.bytes;
  }
  const char* format =
      a.json
          ? "{\"fraction\":%.4f,\"bound\":%.4f,\"virtual_s\":%.1f,\"step_s_p50\":%.2f,"
            "\"step_s_p99\":%.2f,\"events\":%lld,\"deaths\":%lld,\"moves\":%lld,\"retries\":%lld,"
            "\"wasted\":%lld,\"routers_lost\":%lld,\"voided\":%lld,\"steps\":%lld,"
            "\"bytes\":%lld}\n"
          : "fraction %.4f of compute-ideal, bound %.4f, %.1f virtual seconds, steps of %.2f s "
            "(p99 %.2f)\n%lld events, %lld deaths, %lld moves, %lld retries, %lld wasted, %lld "
            "routers lost with %lld microbatches, %lld steps, %lld bytes\n";
  const auto ll = [](std::int64_t v) { return static_cast<long long>(v); };
  std::printf(format, sum.fraction, sum.bound, sum.virtual_s, sum.step_s_p50, sum.step_s_p99,
              ll(sum.events), ll(sum.deaths), ll(sum.moves), ll(sum.retries), ll(sum.wasted),
              ll(sum.routers_lost), ll(sum.voided), ll(sum.steps), ll(sum.bytes));
  return 0;
}

}  // namespace

int run_command(int argc, char** argv) {
  Arguments a;
  read(argc, argv, a);
  if (a.help) return std::fputs(kUsage, stdout), 0;
  if (!a.error.empty()) {
    std::fprintf(stderr, "shoal-sim swarm: %s\n%s", a.error.c_str(), kUsage);
    return 2;
  }
  return a.is_fluid ? run_fluid(a) : run_pipeline(a);
}

}  // namespace shoal::sim::swarm
