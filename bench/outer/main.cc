// shoal-outer: what `shoal-bench outer` runs. Which outer step a job of 20 to 500 rounds wants, and
// what lost contributions cost, on a model of 14,000 parameters that trains in seconds
// (small_model.h): the evidence for the defaults of sync.outer in docs/convergence.md.
//
// The inner rate of every arm and length is chosen by its loss on one seed, which is not reported;
// the reported ones are compared seed by seed, with intervals.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "bench/guarded.h"
#include "bench/outer/small_training.h"
#include "bench/statistics.h"
#include "bench/tuning.h"
#include "job/job_rules.h"

namespace shoal::bench {
namespace {

constexpr double kFirstRate = 8e-3;  // where every sweep begins

struct Options {
  std::string text, keep;
  std::vector<std::int64_t> rounds = {20, 40, 100, 200, 500};
  std::vector<OuterSpec> outer = {{0.7, 0.9}, {1, 0}};  // beside the default
  SmallLength length;
  std::int64_t seeds = 5;
  bool drops = false, liars = false;
};

std::vector<SmallArm> outer_arms(const std::vector<OuterSpec>& tried) {
  const OuterSpec usual = default_spec(SyncAlgorithm::kDiloco).sync.outer;
  std::vector<SmallArm> arms = {{"ddp", Averaging::kGradients, {}},
                                {"diloco", Averaging::kDiloco, usual}};
  for (const OuterSpec& outer : tried) {
    char name[64];
    std::snprintf(name, sizeof name, "diloco, outer %g/%g", outer.lr, outer.momentum);
    arms.push_back({name, Averaging::kDiloco, outer});
  }
  for (const OuterTraits& traits : kOuterTraits) {
    if (traits.method == usual.method) continue;
    arms.push_back({std::string("diloco, outer ") + to_string(traits.method), Averaging::kDiloco,
                    default_spec(SyncAlgorithm::kDiloco, traits.method).sync.outer});
  }
  return arms;
}

// "0.7/0.9": learning rate and momentum.
std::optional<OuterSpec> read_outer(const std::string& text) {
  OuterSpec outer;
  int length = 0;
  const int read = std::sscanf(text.c_str(), "%lf/%lf%n", &outer.lr, &outer.momentum, &length);
  if (read != 2 || static_cast<std::size_t>(length) != text.size()) return std::nullopt;
  if (!(outer.lr > 0 && outer.lr <= 2 && outer.momentum >= 0 && outer.momentum < 1)) return {};
  return outer;
}

std::vector<SmallArm> drop_arms() {
  const OuterSpec usual = default_spec(SyncAlgorithm::kDiloco).sync.outer;
  const auto half = [&](const char* name, Averaging averaging, Lost lost) {
    return SmallArm{std::string("half dropped, ") + name, averaging, usual, 0.5, lost};
  };
  return {{"diloco", Averaging::kDiloco, usual},
          half("progress lost", Averaging::kDiloco, Lost::kStartsOver),
          half("progress kept", Averaging::kDiloco, Lost::kKeepsOwn),
          half("moved with the anchor", Averaging::kDiloco, Lost::kMovesWithAnchor),
          half("progress lost, a share of the step", Averaging::kAsync, Lost::kStartsOver),
          half("progress kept, a share of the step", Averaging::kAsync, Lost::kKeepsOwn),
          half("async", Averaging::kAsync, Lost::kMovesWithAnchor)};
}

// The 80 symbols that come first in the text have one each; what is rarer shares the last one.
std::vector<std::uint8_t> read_symbols(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::map<char, std::uint8_t> symbols;
  std::vector<std::uint8_t> text;
  for (std::istreambuf_iterator<char> at(in), end; at != end; ++at) {
    const std::size_t next = std::min(symbols.size(), kSmallSymbols - 1);
    text.push_back(symbols.emplace(*at, static_cast<std::uint8_t>(next)).first->second);
  }
  if (text.size() < 100'000) throw std::runtime_error(path + " has less than 100,000 bytes");
  return text;
}

// Finished runs, one a line: what it was, a tab, its loss.
class Kept {
 public:
  explicit Kept(const std::string& path) {
    if (path.empty()) return;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      const auto tab = line.find('\t');
      if (tab != std::string::npos) losses_[line.substr(0, tab)] = std::stod(line.substr(tab + 1));
    }
    out_.open(path, std::ios::app);
  }

  template <typename Make>
  double loss(const std::string& run, const Make& make) {
    const auto known = losses_.find(run);
    if (known != losses_.end()) return known->second;
    const double loss = make();
    std::fprintf(stderr, "%-60s %.4f\n", run.c_str(), loss);
    if (out_.is_open()) out_ << run << '\t' << loss << std::endl;
    return losses_[run] = loss;
  }

 private:
  std::map<std::string, double> losses_;
  std::ofstream out_;
};

struct Row {
  std::string arm;
  double lr = 0;
  std::vector<double> losses;  // by seed
};

class Study {
 public:
  explicit Study(const Options& options)
      : options_(options), model_(read_symbols(options.text)), kept_(options.keep) {}

  Row row(const SmallArm& arm, const SmallLength& length) {
    Row row{arm.name};
    row.lr = tune(kFirstRate, [&](double lr) { return run(arm, length, lr, kTuningSeed); });
    for (std::int64_t seed = 1; seed <= options_.seeds; ++seed) {
      row.losses.push_back(run(arm, length, row.lr, static_cast<std::uint64_t>(seed)));
    }
    return row;
  }

 private:
  double run(const SmallArm& arm, const SmallLength& length, double lr, std::uint64_t seed) {
    char what[160];
    std::snprintf(what, sizeof what, "%s (%g/%g), %lld x %lld, lr %g, seed %llu", arm.name.c_str(),
                  arm.outer.lr, arm.outer.momentum, static_cast<long long>(length.rounds),
                  static_cast<long long>(length.every), lr, static_cast<unsigned long long>(seed));
    return kept_.loss(what, [&] { return train_small(model_, arm, length, lr, seed); });
  }

  const Options& options_;
  SmallModel model_;
  Kept kept_;
};

void print_rows(std::int64_t rounds, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const Interval loss = interval_of(row.losses);
    std::printf("| %lld | %s | %g | %.4f ± %.4f |", static_cast<long long>(rounds), row.arm.c_str(),
                row.lr, loss.mean, loss.half);
    if (&row == &rows.front()) {
      std::printf(" |\n");
      continue;
    }
    const Interval excess = excess_of(row.losses, rows.front().losses);
    std::printf(" %+.1f ± %.1f %%: %s |\n", excess.mean, excess.half,
                to_string(verdict_of(excess, 2.5)));
  }
}

// Eight workers of which two lie, beside the six that do not.
struct LiarArm {
  const char* name;
  std::int64_t workers;
  LiarSetting setting;
};

constexpr LiarArm kLiarArms[] = {
    {"the six alone", 6, {.lie = false}},
    {"eight, none lies", 8, {.lie = false}},
    {"two lie, audit 0.02", 8, {}},
    {"two lie, audit 0.1", 8, {.audit = 0.1}},
    {"two lie, only norms are verified", 8, {.audit = 0}},
    {"two lie, nothing is verified", 8, {.verify = false}},
};

void print_named(const LiarArm& arm, const std::vector<Named>& all) {
  std::vector<double> norm, average;
  std::int64_t others = 0;
  for (const Named& one : all) {
    if (one.norm > 0) norm.push_back(static_cast<double>(one.norm));
    if (one.average > 0) average.push_back(static_cast<double>(one.average));
    others += one.others;
  }
  const auto rounds = [](const std::vector<double>& of) {
    if (of.empty()) return std::string("never");
    const auto [first, last] = std::ranges::minmax_element(of);
    char text[64];
    std::snprintf(text, sizeof text, "%zu times, round %g to %g", of.size(), *first, *last);
    return std::string(text);
  };
  if (!arm.setting.lie) {
    std::printf(" honest members blamed: %lld |\n", static_cast<long long>(others));
    return;
  }
  std::printf(" norm %s; average %s; honest members blamed: %lld |\n", rounds(norm).c_str(),
              rounds(average).c_str(), static_cast<long long>(others));
}

// All with the inner rate that suits the first.
void study_liars(const Options& options, SmallModel& model, std::int64_t rounds) {
  SmallLength length = options.length;
  length.rounds = rounds;
  SmallArm arm{"liars", Averaging::kDiloco, default_spec(SyncAlgorithm::kDiloco).sync.outer};
  arm.liars = kLiarArms[0].setting;
  length.workers = kLiarArms[0].workers;
  const double lr = tune(
      kFirstRate, [&](double rate) { return train_small(model, arm, length, rate, kTuningSeed); });
  std::vector<double> alone;
  for (const LiarArm& one : kLiarArms) {
    arm.liars = one.setting;
    length.workers = one.workers;
    std::vector<double> losses;
    std::vector<Named> named(static_cast<std::size_t>(options.seeds));
    for (std::int64_t seed = 1; seed <= options.seeds; ++seed) {
      losses.push_back(train_small(model, arm, length, lr, static_cast<std::uint64_t>(seed),
                                   &named[static_cast<std::size_t>(seed) - 1]));
    }
    if (alone.empty()) alone = losses;
    const Interval loss = interval_of(losses), excess = excess_of(losses, alone);
    std::printf("| %lld | %s | %.4f ± %.4f | %+.1f ± %.1f %% |", static_cast<long long>(rounds),
                one.name, loss.mean, loss.half, excess.mean, excess.half);
    print_named(one, named);
    std::fflush(stdout);
  }
}

void add_options(CLI::App& app, Options& o) {
  app.add_option("--text", o.text, "Training text; the last tenth is held out")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--rounds", o.rounds, "Lengths of a job [20 40 100 200 500]")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1'000'000}));
  app.add_option("--every", o.length.every, "Inner steps per round")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  app.add_option("--workers", o.length.workers)
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{64}));
  app.add_option("--seeds", o.seeds)->check(CLI::Range(std::int64_t{2}, std::int64_t{1000}));
  app.add_option("--keep", o.keep, "File of finished runs: they are not made again");
  app.add_option_function<std::vector<std::string>>(
         "--outer",
         [&o](const std::vector<std::string>& words) {
           o.outer.clear();
           for (const std::string& word : words) o.outer.push_back(*read_outer(word));
         },
         "Outer steps beside the default, LR/MOMENTUM [0.7/0.9 1/0]")
      ->check([](const std::string& text) {
        return read_outer(text) ? "" : text + " is no LR/MOMENTUM such as 0.9/0.3";
      });
  app.add_flag("--liars", o.liars,
               "Eight workers of which two lie, instead: --workers and --keep are not read");
  app.add_flag("--drops", o.drops, "What half of the contributions lost cost, instead");
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Which outer step a job of so many rounds wants.");
  app.name("shoal-bench outer");
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.liars) {
    SmallModel model(read_symbols(options.text));
    std::printf("| rounds | arm | loss, mean and 95 %% | above the first | named |\n");
    std::printf("|---|---|---|---|---|\n");
    for (const std::int64_t rounds : options.rounds) study_liars(options, model, rounds);
    return 0;
  }
  Study study(options);
  std::printf("| rounds | arm | inner lr | loss, mean and 95 %% | above the first |\n");
  std::printf("|---|---|---|---|---|\n");
  for (const std::int64_t rounds : options.rounds) {
    SmallLength length = options.length;
    length.rounds = rounds;
    std::vector<Row> rows;
    for (const SmallArm& arm : options.drops ? drop_arms() : outer_arms(options.outer)) {
      rows.push_back(study.row(arm, length));
    }
    print_rows(rounds, rows);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::guarded(shoal::bench::run, argc, argv); }
