// See bench.h. Work per token: 6 operations per parameter that a matrix product uses (forward 2,
// backward 4), and 6 * layers * hidden * context for causal attention (half of the full square).
#include "trainer/bench.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/prng.h"
#include "job/job_rules.h"
#include "trainer/model/learner.h"
#include "trainer/plain/parameter_layout.h"
#include "transfer/file_writer.h"

namespace shoal::trainer {
namespace {

constexpr std::int64_t kWarmupSteps = 5;

double operations_per_token(const ModelSpec& model) {
  const std::int64_t looked_up = model.family == ModelFamily::kLlama ? model.vocab * model.hidden
                                                                     : model.context * model.hidden;
  const auto multiplied = static_cast<double>(parameter_count(model) - looked_up);
  return 6.0 * multiplied + 6.0 * static_cast<double>(model.layers * model.hidden * model.context);
}

// A file of random tokens that vanishes with this object.
class RandomText {
 public:
  explicit RandomText(const ModelSpec& model)
      : path_(std::filesystem::temp_directory_path() /
              ("shoal-bench-" + std::to_string(::getpid()) + ".txt")) {
    Prng prng(1);
    std::string text(static_cast<std::size_t>(64 * model.context + (1 << 16)), '\0');
    const auto tokens = static_cast<std::uint64_t>(std::min<std::int64_t>(model.vocab, 256));
    for (char& c : text) c = static_cast<char>(prng.below(tokens));
    const auto file = write_whole_file(path_, text);
    if (!file) written_ = file.error();
  }
  ~RandomText() {
    std::error_code ignored;  // a temporary file that stays is no failure of the measurement
    std::filesystem::remove(path_, ignored);
  }
  const Status& written() const { return written_; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
  Status written_;
};

int complain(const std::string& text) {
  std::cerr << "shoal-trainer: " << text << std::endl;
  return 1;
}

MaybeFailure run_steps(Learner& learner, const TrainSpec& train, std::int64_t first,
                       std::int64_t count) {
  for (std::int64_t i = first; i < first + count; ++i) {
    StepResult result;
    if (auto failure = learner.train_step(Steps(i), i * train.batch, result)) {
      return failure;
    }
  }
  return std::nullopt;
}

void print(const BenchOptions& options, const JobSpec& spec, const Device& device,
           const std::string& libraries, double seconds) {
  const auto tokens = static_cast<double>(options.steps * spec.train.batch * spec.model.context);
  const double rate = tokens / seconds;
  const double gflops = rate * operations_per_token(spec.model) * 1e-9;
  if (!options.json) {
    std::printf("%s %lld layers, hidden %lld, context %lld, batch %lld: %lld parameters\n",
                to_string(spec.model.family), static_cast<long long>(spec.model.layers),
                static_cast<long long>(spec.model.hidden),
                static_cast<long long>(spec.model.context),
                static_cast<long long>(spec.train.batch),
                static_cast<long long>(parameter_count(spec.model)));
    std::printf("%.0f tokens/s, %.1f GFLOP/s of %.1f (matrix product), %.0f %%\n", rate, gflops,
                device.gflops, 100 * gflops / device.gflops);
    std::printf("%s\n", libraries.c_str());
    return;
  }
  const nlohmann::ordered_json json = {{"name", "trainer"},
                                       {"family", to_string(spec.model.family)},
                                       {"layers", spec.model.layers},
                                       {"hidden", spec.model.hidden},
                                       {"context", spec.model.context},
                                       {"batch", spec.train.batch},
                                       {"precision", to_string(spec.train.precision)},
                                       {"parameters", parameter_count(spec.model)},
                                       {"steps", options.steps},
                                       {"seconds", seconds},
                                       {"tokens_per_s", rate},
                                       {"gflop_per_token", operations_per_token(spec.model) * 1e-9},
                                       {"gflops", gflops},
                                       {"matrix_product_gflops", device.gflops},
                                       {"share", gflops / device.gflops},
                                       {"device", device.name},
                                       {"threads", options.threads},
                                       {"libraries", libraries}};
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

int bench(const BenchOptions& options) {
  JobSpec spec;
  spec.name = "bench";
  spec.model = options.model;
  spec.data.train = "random tokens";
  spec.train.batch = options.batch;
  spec.train.precision = options.precision;
  const auto problems = validate(spec);
  if (!problems.empty()) return complain(problems[0].pointer + ": " + problems[0].detail);
  const RandomText text(options.model);
  if (!text.written()) return complain(to_string(text.written().error()));
  spec.data.train = text.path();
  spec = with_derived_fields(spec);
  const DeviceChoice choice{options.cuda ? DeviceKind::kCuda : DeviceKind::kCpu, 0,
                            options.threads};
  if (const Status s = prepare_device(choice); !s) return complain(to_string(s.error()));
  auto data = Dataset::open(spec, data::DataRoots::whole_host());
  if (!data) return complain(to_string(data.error()));
  std::unique_ptr<StageModel> model;
  if (auto f = StageModel::create(spec, whole_model(spec.model), choice, model)) {
    return complain(f->detail);
  }
  Learner learner(*model, std::move(*data), nullptr,
                  options.eager ? MakeCapturedWork() : cuda_graphs_of(choice));
  Device device;
  if (auto f = guarded([&] { device = measure_device(choice); })) return complain(f->detail);
  model->seed();
  if (auto f = run_steps(learner, spec.train, 0, kWarmupSteps)) return complain(f->detail);
  const auto start = std::chrono::steady_clock::now();
  if (auto f = run_steps(learner, spec.train, kWarmupSteps, options.steps)) {
    return complain(f->detail);
  }
  model->parameters_in_place();  // waits for the last step
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  print(options, spec, device, describe_libraries(choice), elapsed.count());
  return 0;
}

}  // namespace shoal::trainer
