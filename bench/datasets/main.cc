// shoal-datasets: what `shoal-bench datasets` runs. It streams a dataset larger than memory in the
// order of a job and watches the memory of the process. Then it reads a smaller one through an
// agent's verified cache over a line of a given speed, and watches the size of the cache on disk.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <stdlib.h>
#include <unistd.h>

#include "bench/datasets/streamed_dataset.h"
#include "bench/guarded.h"
#include "data/stored_tokens.h"
#include "threads/mutex.h"

namespace shoal::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kMib = 1 << 20;

struct Options {
  std::int64_t gib = 100, line_gib = 1, cache_mib = 256, context = 8'192;
  double line_mbit = 800;
  bool json = false;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / kMib;
}

JobSpec spec_of(const Options& options, const StreamedDataset& dataset) {
  JobSpec spec;
  spec.name = "streamed";
  spec.model.context = options.context;
  spec.model.vocab = StreamedDataset::kVocab;
  spec.data.dataset = "web@" + dataset.manifest_hash();
  spec.data.tokenizer = Tokenizer::kUint32;
  spec.data.val_fraction = 0.001;
  return spec;
}

std::unique_ptr<data::StoredTokens> open(const JobSpec& spec, data::ReadStored read) {
  auto opened = data::StoredTokens::open(spec, std::move(read));
  if (!opened) throw std::runtime_error(to_string(opened.error()));
  return std::move(*opened);
}

// Reads every sequence of an epoch, and calls `after` after each.
void read_epoch(const data::StoredTokens& tokens, std::int64_t context,
                const std::function<void()>& after) {
  std::vector<std::int64_t> window(static_cast<std::size_t>(context + 1));
  tokens.will_read({{0, tokens.sequences()}});
  for (std::int64_t i = 0; i < tokens.sequences(); ++i) {
    if (Status s = tokens.training_sequence(i, window); !s.ok()) {
      throw std::runtime_error(to_string(s.error()));
    }
    after();
  }
}

struct Streamed {
  double seconds = 0, gib = 0, early_mib = 0, peak_mib = 0;
};

// The first two GiB fill the memory of chunks; from then on it must not grow.
Streamed stream(const Options& options) {
  const StreamedDataset dataset(options.gib, false);
  std::atomic<std::int64_t> fetched{0};
  const auto tokens =
      open(spec_of(options, dataset),
           [&](const std::string&, std::int64_t shard, std::int64_t chunk) -> Result<std::string> {
             if (shard == data::kManifestText) return dataset.manifest_text();
             fetched += data::kChunkBytesMax;
             return dataset.chunk(shard, chunk);
           });
  Streamed out;
  std::int64_t looked = 0;
  const auto begin = Clock::now();
  read_epoch(*tokens, options.context, [&] {
    if (fetched < looked + (64 << 20)) return;
    looked = fetched;
    const double now = resident_mib();
    if (fetched < (std::int64_t{2} << 30)) out.early_mib = std::max(out.early_mib, now);
    out.peak_mib = std::max(out.peak_mib, now);
  });
  out.seconds = seconds_since(begin);
  out.gib = static_cast<double>(fetched) / kMib / 1'024;
  return out;
}

// Carries bytes one after the other at its speed, whoever sends them.
class Line {
 public:
  explicit Line(double mbit) : bytes_per_s_(mbit * 125'000) {}
  void carry(std::size_t bytes) {
    Clock::time_point until;
    {
      const MutexLock guard(mutex_);
      const std::chrono::duration<double> lasts(static_cast<double>(bytes) / bytes_per_s_);
      free_at_ =
          std::max(free_at_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(lasts);
      until = free_at_;
    }
    std::this_thread::sleep_until(until);
  }

 private:
  const double bytes_per_s_;
  Mutex mutex_;
  Clock::time_point free_at_ SHOAL_GUARDED_BY(mutex_);
};

std::int64_t bytes_beneath(const std::string& folder) {
  std::int64_t bytes = 0;
  std::error_code gone;
  for (const auto& entry : fs::recursive_directory_iterator(folder, gone)) {
    if (entry.is_regular_file(gone)) bytes += static_cast<std::int64_t>(entry.file_size(gone));
  }
  return bytes;
}

struct Fetched {
  double seconds = 0, mib = 0, of_dataset = 0, of_line = 0, cache_peak_mib = 0;
};

Fetched fetch(const Options& options, const std::string& folder) {
  const StreamedDataset dataset(options.line_gib, true);
  Line line(options.line_mbit);
  auto cache = agent::DataCache::open(folder, mebibytes(options.cache_mib));
  if (!cache) throw std::runtime_error(to_string(cache.error()));
  agent::DataSource source(**cache, [&](const agent::FileRange& range) -> Result<std::string> {
    std::string bytes = dataset.range(range);
    line.carry(bytes.size());
    return bytes;
  });
  const auto begin = Clock::now();
  const auto tokens = open(spec_of(options, dataset), [&](const std::string& manifest,
                                                          std::int64_t shard, std::int64_t chunk) {
    return source.read(ReplicaId(1), manifest, shard, chunk);
  });
  Fetched out;
  std::int64_t looked = 0;
  read_epoch(*tokens, options.context, [&] {
    if (source.fetched_bytes() < looked + (16 << 20)) return;
    looked = source.fetched_bytes();
    out.cache_peak_mib =
        std::max(out.cache_peak_mib, static_cast<double>(bytes_beneath(folder)) / kMib);
  });
  out.seconds = seconds_since(begin);
  const auto bytes = static_cast<double>(source.fetched_bytes());
  out.mib = bytes / kMib;
  out.of_dataset = bytes / static_cast<double>(dataset.bytes());
  out.of_line = bytes / out.seconds / (options.line_mbit * 125'000);
  return out;
}

void show(const Options& options, const Streamed& streamed, const Fetched& fetched) {
  if (options.json) {
    const nlohmann::ordered_json all = {{"streamed_gib", streamed.gib},
                                        {"streamed_s", streamed.seconds},
                                        {"resident_mib_early", streamed.early_mib},
                                        {"resident_mib_peak", streamed.peak_mib},
                                        {"line_mbit", options.line_mbit},
                                        {"fetched_mib", fetched.mib},
                                        {"fetched_s", fetched.seconds},
                                        {"fetched_of_dataset", fetched.of_dataset},
                                        {"fetched_of_line", fetched.of_line},
                                        {"cache_limit_mib", options.cache_mib},
                                        {"cache_peak_mib", fetched.cache_peak_mib}};
    std::printf("%s\n", all.dump(2).c_str());
    return;
  }
  std::printf("streamed   %8.1f GiB in %.0f s\n", streamed.gib, streamed.seconds);
  std::printf("memory     %8.0f MiB within the first 2 GiB, %.0f MiB at most\n", streamed.early_mib,
              streamed.peak_mib);
  std::printf(
      "fetched    %8.0f MiB in %.1f s, %.2f of the dataset, %.0f %% of a line of %.0f Mbit/s\n",
      fetched.mib, fetched.seconds, fetched.of_dataset, 100 * fetched.of_line, options.line_mbit);
  std::printf("cache      %8.0f MiB at most, of %lld MiB\n", fetched.cache_peak_mib,
              static_cast<long long>(options.cache_mib));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "What an agent pays for a dataset larger than memory, and for one over a slow line.");
  app.name("shoal-bench datasets");
  app.add_option("--gib", options.gib, "size of the streamed dataset [100]")
      ->check(CLI::Range(std::int64_t{3}, std::int64_t{1} << 20));
  app.add_option("--line-gib", options.line_gib,
                 "size of the dataset that is read over the line [1]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{64}));
  app.add_option("--line-mbit", options.line_mbit, "speed of the line [800]")
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--cache-mib", options.cache_mib, "limit of the agent's cache [256]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--context", options.context, "tokens of a sequence [8192]")
      ->check(CLI::Range(std::int64_t{16}, std::int64_t{262'143}));
  app.add_flag("--json", options.json, "print one JSON object");
  CLI11_PARSE(app, argc, argv);
  std::string folder = (fs::temp_directory_path() / "shoal-datasets-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  const Streamed streamed = stream(options);
  const Fetched fetched = fetch(options, folder);
  fs::remove_all(folder);
  show(options, streamed, fetched);
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::guarded(shoal::bench::run, argc, argv); }
