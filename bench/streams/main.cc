// shoal-streams: what carries bytes between peers, and at what price. Processes are forked; all
// contenders run in each of them, in turns.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/streams/worker.h"
#include "bench/worker_processes.h"

namespace shoal::bench {
namespace {

struct Options {
  int processes = 2, megabytes = 256, repeats = 5, lanes = 1;
  std::size_t message = 1 << 20;
  std::vector<std::string> contenders = {std::begin(kContenders), std::end(kContenders)};
  std::vector<std::string> measures = {"flow", "hop", "cancel", "handshake"};
  std::vector<std::string> namespaces, hosts;
  bool json = false;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Figures by contender and name; a repetition each.
using Figures = std::map<std::string, std::map<std::string, std::vector<double>>>;

class Measurement {
 public:
  explicit Measurement(const Options& options)
      : options_(options),
        identities_(make_identities(options.processes)),
        workers_(options.processes, [this](int rank) { return make_worker(rank); }) {}

  // False: somebody failed, and has said so.
  bool run() {
    for (const std::string& kind : options_.contenders) {
      if (!connect(kind)) return false;
    }
    for (int i = 0; i <= options_.repeats; ++i) {
      is_warm_up_ = i == 0;
      for (const std::string& kind : options_.contenders) {
        if (!repeat(kind)) return false;
      }
    }
    return true;
  }
  const Figures& figures() const { return figures_; }

 private:
  WorkerProcesses::Answer make_worker(int rank) {
    WorkerOptions options{{rank}, "", options_.contenders, options_.message};
    const auto at = static_cast<std::size_t>(rank);
    options.place.lanes = options_.lanes;
    if (!options_.hosts.empty()) options.place.host = options_.hosts.at(at);
    if (!options_.namespaces.empty()) options.name_space = options_.namespaces.at(at);
    auto worker = std::make_shared<Worker>(options, identities_.at(at));
    return [worker](const std::string& command) { return worker->obey(command); };
  }

  // The numbers of every process's answer; empty when one failed.
  std::vector<std::vector<double>> ask(const std::string& command) {
    std::vector<std::vector<double>> numbers;
    for (const std::string& answer : workers_.ask(command)) {
      if (answer.starts_with("failed")) {
        std::fprintf(stderr, "shoal-streams: %s: %s\n", command.c_str(), answer.c_str());
        return {};
      }
      std::istringstream words(answer);
      std::vector<double>& own = numbers.emplace_back();
      for (double number = 0; words >> number;) own.push_back(number);
    }
    return numbers;
  }

  bool connect(const std::string& kind) {
    std::string command = "connect " + kind;
    for (const std::string& address : workers_.ask("listen " + kind)) command += " " + address;
    for (const std::string& answer : workers_.ask(command)) {
      if (answer == "ready") continue;
      std::fprintf(stderr, "shoal-streams: %s: %s\n", kind.c_str(), answer.c_str());
      return false;
    }
    return true;
  }

  double cpu() {
    double sum = 0;
    for (const auto& each : ask("cpu")) sum += each.empty() ? 0 : each[0];
    return sum;
  }

  void note(const std::string& kind, const std::string& name, double value) {
    if (!is_warm_up_) figures_[kind][name].push_back(value);
  }

  bool does(const char* measure) const {
    return std::ranges::count(options_.measures, measure) > 0;
  }

  bool repeat(const std::string& kind) {
    if (does("flow") && !flow(kind)) return false;
    if (does("hop")) {
      for (const auto& [size, count] :
           {std::pair(4 << 10, 2000), std::pair(64 << 10, 1000), std::pair(1 << 20, 200)}) {
        if (!hop(kind, size, count)) return false;
      }
    }
    if (kind == "bare") return true;
    return (!does("cancel") || cancel(kind)) && (!does("handshake") || handshake(kind));
  }

  bool flow(const std::string& kind) {
    const double bytes = 1e6 * options_.megabytes, cpu_before = cpu();
    double slowest = 0;
    const auto answers = ask("flow " + kind + " " + std::to_string(static_cast<long long>(bytes)));
    if (answers.empty()) return false;
    for (const auto& each : answers) slowest = std::max(slowest, each.at(0));
    const double n = options_.processes, sent_each = 2 * (n - 1) / n * bytes;
    note(kind, "gb_per_s", sent_each / slowest);
    note(kind, "cpu_s_per_gb", (cpu() - cpu_before) / (n * sent_each * 1e-9));
    return true;
  }

  bool hop(const std::string& kind, int size, int count) {
    const double cpu_before = cpu();
    const auto answers =
        ask("ping " + kind + " " + std::to_string(size) + " " + std::to_string(count));
    if (answers.empty()) return false;
    const std::string name = "hop_" + std::to_string(size >> 10) + "k_";
    note(kind, name + "p50_us", answers[0].at(0) * 1e-3);
    note(kind, name + "p99_us", answers[0].at(1) * 1e-3);
    note(kind, name + "cpu_us", (cpu() - cpu_before) / (2.0 * count) * 1e6);
    return true;
  }

  bool cancel(const std::string& kind) {
    const auto answers = ask("cancel " + kind);
    if (answers.empty()) return false;
    double told = 0;
    for (int tries = 0; tries < 1000 && told < answers[0].at(0); ++tries) {
      const auto gone = ask("gone");
      if (gone.empty()) return false;
      told = gone.at(1).at(0);
    }
    note(kind, "cancel_freed_us", answers[0].at(1) * 1e-3);
    note(kind, "cancel_told_us", (told - answers[0].at(0)) * 1e-3);
    return true;
  }

  bool handshake(const std::string& kind) {
    for (int i = 0; i < 5; ++i) {
      const auto answers = ask("handshake " + kind);
      if (answers.empty()) return false;
      note(kind, "handshake_ms", answers[0].at(0) * 1e-6);
    }
    return true;
  }

  const Options& options_;
  const std::vector<Identity> identities_;
  WorkerProcesses workers_;
  Figures figures_;
  bool is_warm_up_ = true;
};

void print_json(const Options& options, const Figures& figures) {
  nlohmann::ordered_json json = {{"name", "streams"},
                                 {"processes", options.processes},
                                 {"megabytes", options.megabytes},
                                 {"message", options.message},
                                 {"lanes", options.lanes},
                                 {"repeats", options.repeats}};
  for (const std::string& kind : options.contenders) {
    nlohmann::ordered_json one = {{"kind", kind}};
    for (const auto& [name, values] : figures.at(kind)) {
      one[name] = median(values);
      one["all_" + name] = values;
    }
    json["results"].push_back(one);
  }
  std::printf("%s\n", json.dump(2).c_str());
}

void print_table(const Options& options, const Figures& figures) {
  std::set<std::string> names;
  for (const auto& [kind, own] : figures) {
    for (const auto& [name, values] : own) names.insert(name);
  }
  std::printf("%-20s", "medians");
  for (const std::string& kind : options.contenders) std::printf(" %12s", kind.c_str());
  for (const std::string& name : names) {
    std::printf("\n%-20s", name.c_str());
    for (const std::string& kind : options.contenders) {
      const auto& own = figures.at(kind);
      const auto found = own.find(name);
      if (found == own.end()) {
        std::printf(" %12s", "-");
      } else {
        std::printf(" %12.3f", median(found->second));
      }
    }
  }
  std::printf("\n");
}

int run(int argc, char** argv) {
  CLI::App app("What carries bytes between peers: streams of our own beside bare sockets.");
  Options o;
  app.add_option("--processes", o.processes)->check(CLI::Range(2, 16));
  app.add_option("--megabytes", o.megabytes, "Size of the vector of a butterfly")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--message", o.message, "Bytes of a message of a butterfly")
      ->check(CLI::Range(std::size_t{1024}, std::size_t{4 << 20}));
  app.add_option("--repeats", o.repeats)->check(CLI::Range(1, 1000));
  app.add_option("--lanes", o.lanes, "Connections of a pair, for streams")
      ->check(CLI::Range(1, 16));
  app.add_option("--contenders", o.contenders)
      ->delimiter(',')
      ->check(
          CLI::IsMember(std::vector<std::string>(std::begin(kContenders), std::end(kContenders))));
  app.add_option("--measures", o.measures)
      ->delimiter(',')
      ->check(CLI::IsMember({"flow", "hop", "cancel", "handshake"}));
  app.add_option("--namespaces", o.namespaces, "Network namespace of each process")->delimiter(',');
  app.add_option("--hosts", o.hosts, "Address of each process in its namespace")->delimiter(',');
  app.add_flag("--json", o.json, "One JSON object");
  CLI11_PARSE(app, argc, argv);
  const auto count = static_cast<std::size_t>(o.processes);
  if ((!o.hosts.empty() && o.hosts.size() != count) || o.hosts.size() < o.namespaces.size()) {
    return std::fputs("shoal-streams: give --hosts (and --namespaces) for each process\n", stderr),
           2;
  }
  Measurement measurement(o);
  if (!measurement.run()) return 1;
  o.json ? print_json(o, measurement.figures()) : print_table(o, measurement.figures());
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::run(argc, argv); }
