// A real pipeline, except the devices, which wait: StageRuntimes on threads of this process,
// real sockets on loopback, an emulated line per agent if one is asked for. Without --agents: what
// a hop costs when nothing is computed. With it: the fraction of compute-ideal, beside what the
// simulator says of the same parameters.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "bench/bench.h"
#include "bench/cpu_seconds.h"
#include "swarm/pipeline/local_pipeline.h"
#include "tests/sim/swarm/options.h"

namespace shoal::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kHidden = 512;
constexpr Duration kPatience = seconds(3600);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A microbatch whose boundary is `bytes` as bf16.
swarm::StageShape shape_of(std::int64_t bytes) {
  return {1, std::max<std::int64_t>(1, bytes / (2 * kHidden)), kHidden, 256};
}

bool run_round(swarm::LocalPipeline& pipeline, std::int64_t steps, std::int64_t microbatches) {
  pipeline.open(steps, microbatches);
  if (pipeline.wait_for_boundary(kPatience)) return true;
  std::fprintf(stderr, "shoal-bench: %s\n", pipeline.failures().c_str());
  return false;
}

// ---- what a hop costs

struct Hop {
  std::int64_t bytes = 0;
  double us = 0;        // one microbatch in flight: time per hop
  double cpu_us = 0;    // the same, seconds of processors; unlike time, it bears a busy machine
  double gb_per_s = 0;  // as many as the credits allow: encoded bytes, both directions together
};

struct Spent {
  double wall_s = 0, cpu_s = 0;
};

// Per microbatch of one router and one replica, two hops each.
Spent spent_per_microbatch(std::int64_t bytes, double window, std::int64_t count) {
  swarm::LocalOptions options;
  options.shape = shape_of(bytes);
  options.window_per_replica = window;
  swarm::LocalPipeline pipeline(options);
  pipeline.add(0);
  pipeline.add(1);
  pipeline.tell_view();
  if (!run_round(pipeline, 1, 20)) return {};  // connects and touches the pages
  pipeline.commit();
  const auto begin = Clock::now();
  const double cpu = cpu_seconds();
  if (!run_round(pipeline, 1, count)) return {};
  const auto n = static_cast<double>(count);
  return {seconds_since(begin) / n, (cpu_seconds() - cpu) / n};
}

Hop measure_hop(std::int64_t bytes, int repeats) {
  const std::int64_t count = std::clamp<std::int64_t>((64 << 20) / bytes, 20, 500);
  std::vector<double> alone, cpu, filled;
  for (int i = 0; i < repeats; ++i) {
    const Spent spent = spent_per_microbatch(bytes, 0.5, count);
    alone.push_back(spent.wall_s);
    cpu.push_back(spent.cpu_s);
    filled.push_back(spent_per_microbatch(bytes, 8, count).wall_s);
  }
  const double both = 2.0 * static_cast<double>(bytes);
  return {bytes, median(alone) / 2 * 1e6, median(cpu) / 2 * 1e6, both / median(filled) * 1e-9};
}

int run_hops(const PipelineOptions& options) {
  std::vector<Hop> hops;
  for (const std::int64_t bytes : {4 << 10, 64 << 10, 1 << 20, 8 << 20}) {
    hops.push_back(measure_hop(bytes, options.repeats));
    if (hops.back().us <= 0) return 1;
  }
  const Hop &small = hops.front(), &large = hops.back();
  const double slope =
      static_cast<double>(large.bytes - small.bytes) / (large.us - small.us) * 1e-3;
  nlohmann::ordered_json json = {{"name", "pipeline hop"}, {"gb_per_s_alone", slope}};
  if (!options.json) {
    std::printf("%12s %12s %12s %14s\n", "bytes", "us per hop", "us of CPU", "GB/s, filled");
  }
  for (const Hop& hop : hops) {
    json["results"].push_back({{"bytes", hop.bytes},
                               {"us_per_hop", hop.us},
                               {"cpu_us_per_hop", hop.cpu_us},
                               {"gb_per_s_filled", hop.gb_per_s}});
    if (options.json) continue;
    std::printf("%12lld %12.0f %12.0f %14.2f\n", static_cast<long long>(hop.bytes), hop.us,
                hop.cpu_us, hop.gb_per_s);
  }
  if (options.json) return std::printf("%s\n", json.dump(2).c_str()), 0;
  std::printf("one at a time, the bytes pass at %.2f GB/s\n", slope);
  return 0;
}

// ---- the fraction of compute-ideal

struct Fraction {
  double fraction = 0, seconds = 0, busy = 0;
  std::vector<double> steps_s;
};

swarm::LocalOptions local_options(const PipelineOptions& o) {
  swarm::LocalOptions local;
  local.stages = o.stages;
  local.shape = shape_of(o.payload);
  local.forward = seconds_f(o.forward_ms * 1e-3);
  local.backward = seconds_f(o.backward_ms * 1e-3);
  local.jitter = o.jitter;
  local.window_per_replica = static_cast<double>(o.window) / o.agents;
  local.schedule = o.schedule;
  local.link.up_bytes_per_s = local.link.down_bytes_per_s = o.mbit * 1e6 / 8;
  local.link.rtt = seconds_f(o.rtt_ms * 1e-3);
  local.keepalive = seconds(20);  // so many nodes on so few cores
  return local;
}

// Agent i serves stage i mod S; speeds are dealt to the agents of a stage in turn.
double speed_of(const PipelineOptions& o, int agent) {
  return o.speeds[static_cast<std::size_t>(agent / o.stages) % o.speeds.size()];
}

double total_speed(const PipelineOptions& o) {
  double sum = 0;
  for (int i = 0; i < o.agents; ++i) sum += speed_of(o, i);
  return sum;
}

bool measure(const PipelineOptions& o, Fraction& result) {
  swarm::LocalPipeline pipeline(local_options(o));
  for (int i = 0; i < o.agents; ++i) pipeline.add(i % o.stages, speed_of(o, i));
  pipeline.tell_view();
  if (!run_round(pipeline, 1, o.agents / o.stages)) return false;  // connects
  pipeline.commit();
  for (const ReplicaId id : pipeline.ids()) pipeline.at(id).stats();  // counts from here
  const auto begin = Clock::now();
  if (!run_round(pipeline, o.steps, o.microbatches)) return false;
  result.seconds = seconds_since(begin);
  for (const ReplicaId id : pipeline.ids()) {
    result.busy += pipeline.at(id).stats().busy / o.agents;
  }
  const double work = (o.forward_ms + o.backward_ms) * 1e-3;
  result.fraction = static_cast<double>(o.steps * o.microbatches) * work * o.stages /
                    (total_speed(o) * result.seconds);
  return true;
}

double simulated(const PipelineOptions& o) {
  sim::swarm::Options s;
  s.agents = o.agents;
  s.stages = o.stages;
  s.microbatches = o.microbatches;
  s.window = o.window;
  s.forward = seconds_f(o.forward_ms * 1e-3);
  s.backward = seconds_f(o.backward_ms * 1e-3);
  s.payload_bytes = o.payload;
  s.bytes_per_s = o.mbit * 1e6 / 8;
  s.one_way = {{seconds_f(o.rtt_ms * 0.5e-3)}};
  s.jitter = o.jitter;
  s.speeds = o.speeds;
  s.steps = o.steps;
  double sum = 0;
  constexpr int kSeeds = 8;
  for (s.seed = 1; s.seed <= kSeeds; ++s.seed) sum += sim::swarm::simulate(s).fraction;
  return sum / kSeeds;
}

int run_fraction(const PipelineOptions& o) {
  Fraction measured;
  if (!measure(o, measured)) return 1;
  const double expected = simulated(o);
  if (o.json) {
    const nlohmann::ordered_json json = {{"name", "pipeline"},
                                         {"agents", o.agents},
                                         {"stages", o.stages},
                                         {"rtt_ms", o.rtt_ms},
                                         {"mbit", o.mbit},
                                         {"payload", o.payload},
                                         {"steps", o.steps},
                                         {"schedule", to_string(o.schedule)},
                                         {"seconds", measured.seconds},
                                         {"busy", measured.busy},
                                         {"fraction", measured.fraction},
                                         {"simulated", expected}};
    return std::printf("%s\n", json.dump(2).c_str()), 0;
  }
  std::printf("%d agents, %d stages: %.3f of compute-ideal in %.1f s, devices busy %.3f\n",
              o.agents, o.stages, measured.fraction, measured.seconds, measured.busy);
  std::printf("simulated: %.3f\n", expected);
  return 0;
}

}  // namespace

int run_pipeline(const PipelineOptions& options) {
  return options.agents > 0 ? run_fraction(options) : run_hops(options);
}

}  // namespace shoal::bench
