// shoal-convergence: what `shoal-bench convergence` runs. A binary of its own, because it is the
// only benchmark that needs libtorch in the same process.
#include <cstdio>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "base/number_text.h"
#include "bench/convergence/report.h"
#include "bench/guarded.h"
#include "trainer/model/torch_bridge.h"

namespace shoal::bench {
namespace {

void add_options(CLI::App& app, CampaignOptions& o) {
  app.add_option("--text", o.setting.text, "Training text, bytes; the end is held out")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--workers", o.workers)->check(CLI::Range(std::int64_t{2}, std::int64_t{64}));
  app.add_option_function<std::int64_t>(
         "--steps", [&o](std::int64_t steps) { o.setting.steps = Steps(steps); },
         "Inner steps of each worker [3000]")
      ->check(CLI::Range(std::int64_t{100}, std::int64_t{1} << 30));
  app.add_option("--seeds", o.seeds)->check(CLI::Range(std::int64_t{1}, std::int64_t{100}));
  app.add_option("--batch", o.setting.batch, "Sequences per worker and step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}));
  app.add_option("--first-lr", o.first_lr, "Where the sweeps begin")
      ->check([](const std::string& text) { return number_problem(text, 1e-6, 1); });
  app.add_flag_callback(
      "--llama", [&o] { o.setting.model.family = ModelFamily::kLlama; }, "Instead of gpt2");
  app.add_option("--layers", o.setting.model.layers)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{64}));
  app.add_option("--hidden", o.setting.model.hidden)
      ->check(CLI::Range(std::int64_t{8}, std::int64_t{4096}));
  app.add_option("--heads", o.setting.model.heads)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{64}));
  app.add_option("--context", o.setting.model.context)
      ->check(CLI::Range(std::int64_t{8}, std::int64_t{4096}));
  app.add_option("--keep", o.keep, "File of finished runs: they are not made again");
  app.add_flag("--kept-only", o.kept_only,
               "Reports what --keep has and makes no run: a campaign under way");
  app.add_option("--only", o.only, "Arms with this in their name, and those they are tuned as");
}

int run(int argc, char** argv) {
  CampaignOptions options;
  options.setting.model = {ModelFamily::kGpt2, 2, 64, 2, 0, 0, 32, 256};
  CLI::App app("One small model, trained in every way: what each costs in loss and in bytes.");
  app.name("shoal-bench convergence");
  bool json = false;
  add_options(app, options);
  app.add_flag("--json", json, "One JSON object");
  CLI11_PARSE(app, argc, argv);
  const Status ready = trainer::prepare_device({});
  if (!ready) throw std::runtime_error(to_string(ready.error()));
  const auto results = run_campaign(
      options, [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  std::fputs((json ? json_of(options, results) : table_of(results)).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::guarded(shoal::bench::run, argc, argv); }
