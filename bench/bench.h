// The measurements of shoal-bench. Each prints a table for people or, with `json`, one JSON object;
// the result is the exit code. Nothing here asserts a speed: the numbers are for
// docs/performance.md and docs/simulation.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job_spec.h"

namespace shoal::bench {

struct CodecOptions {
  std::int64_t values = 64 << 20;  // fp32 values per pass
  int repeats = 5;
  bool json = false;
};
int run_codec(const CodecOptions& options);

inline constexpr char kAllCodecs[] = "all";  // in place of the words of all dense codecs

struct AllReduceOptions {
  int processes = 4;
  std::int64_t values = 64 << 20;
  int repeats = 5;                                     // of each kind, interleaved
  std::vector<std::string> codecs = {"fp32", "int8"};  // words of CodecKind
  std::int64_t frame_values = 0;               // 0: by the lines, as the coordinator chooses
  bool ring = false;                           // beside the butterfly; equal lines only
  bool decoded = false;                        // beside averages that stay encoded, decoded ones
  bool plain = false;                          // no entropy coding, however slow the line
  bool tcp = false;                            // no local sockets between the processes
  bool tls = false;                            // with certificates, beside bare TLS sockets; tcp
  bool alone = false;                          // without gloo's ring
  std::vector<std::string> namespaces, hosts;  // of each process, if not this one's on loopback
  std::vector<double> mbit;                    // of each process's line, both ways, if limited
  bool json = false;
};
int run_all_reduce(const AllReduceOptions& options);

struct PlannerOptions {
  std::int64_t agents = 10'000;
  int stages = 16;
  std::int64_t replicas = 1000;  // of one stage, for the wiring
  std::int64_t clusters = 100;   // random ones that are planned, beside long annealing
  int repeats = 5;
  bool json = false;
};
int run_planner(const PlannerOptions& options);

struct PipelineOptions {
  int agents = 0;  // 0: measure a hop
  int stages = 4;
  double rtt_ms = 0, mbit = 500;
  double forward_ms = 50, backward_ms = 150;  // of one microbatch at speed 1
  double jitter = 0.05;
  std::int64_t microbatches = 256;   // per step
  int window = 128;                  // in flight, of all
  std::int64_t payload = 1'000'000;  // bytes of one boundary
  std::vector<double> speeds = {1};  // dealt to the agents of a stage
  std::int64_t steps = 3;
  PipelineSchedule schedule = PipelineSchedule::kFlush;
  int repeats = 3;  // of a hop's measurement
  bool json = false;
};
int run_pipeline(const PipelineOptions& options);

struct TokenizerOptions {
  std::string text;  // a file; empty: an invented one of so many bytes
  std::int64_t bytes = 20'000'000;
  std::string tokenizer;  // a tokenizer.json; empty: the one that is learned
  std::int64_t vocabulary = 32'768;
  int repeats = 3;  // of the encoding
  bool json = false;
};
int run_tokenizer(const TokenizerOptions& options);

// Replaces this process by another binary of the same folder; returns only on failure.
int run_beside(const std::string& binary, std::vector<std::string> arguments, bool json);

double median(std::vector<double> values);

}  // namespace shoal::bench
