#include "coordinator/maintenance.h"

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "coordinator/service/config.h"
#include "coordinator/store/backup.h"

namespace shoal::coordinator {
namespace {

constexpr int kExitFailed = 1, kExitRefused = 2;

using Json = nlohmann::ordered_json;

int complain(const Error& error) {
  std::fprintf(stderr, "shoal-coordinator: %s\n", to_string(error).c_str());
  return kExitFailed;
}

void print(const std::string& text) { std::fputs((text + "\n").c_str(), stdout); }

std::string describe(const BackupReport& report) {
  std::string text = std::to_string(report.checkpoints) +
                     (report.checkpoints == 1 ? " checkpoint, " : " checkpoints, ") +
                     std::to_string(report.files) +
                     (report.files == 1 ? " uploaded file, " : " uploaded files, ") +
                     std::to_string(report.bytes.count()) + " bytes";
  if (report.in_store > 0)
    text += " (and the place of " + std::to_string(report.in_store) + " in the object store)";
  return text;
}

int backup(const std::string& data_dir, const std::string& to, bool json) {
  const auto report = back_up_folder(data_dir, to);
  if (!report) return complain(report.error());
  if (json) {
    print(Json{{"folder", to},
               {"checkpoints", report->checkpoints},
               {"checkpoints_in_store", report->in_store},
               {"files", report->files},
               {"bytes", report->bytes.count()}}
              .dump(2));
  } else {
    print("copied state.db, ca.pem, record_keys.json and " + describe(*report) + " to " + to);
    print("look at it with: shoal admin restore-check " + to);
  }
  return 0;
}

int restore_check(const std::string& folder, bool json) {
  const auto check = check_backup(folder);
  if (!check) return complain(check.error());
  const bool good = check->problems.empty();
  if (json) {
    print(Json{{"good", good},
               {"problems", check->problems},
               {"jobs", check->jobs},
               {"checkpoints", check->content.checkpoints},
               {"checkpoints_in_store", check->content.in_store},
               {"files", check->content.files}}
              .dump(2));
    return good ? 0 : kExitFailed;
  }
  for (const std::string& job : check->jobs) print(job);
  for (const std::string& problem : check->problems) print("problem: " + problem);
  print(good ? "good: " + describe(check->content) + ", every file as it was recorded"
             : std::to_string(check->problems.size()) + " problems: do not put it back like this");
  return good ? 0 : kExitFailed;
}

}  // namespace

std::optional<int> run_maintenance(int argc, const char* const* argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first != "backup" && first != "restore-check") return std::nullopt;
  ::umask(077);
  CLI::App app("What a coordinator's folder needs beside a coordinator", "shoal-coordinator");
  app.require_subcommand(1);
  std::string data_dir = default_data_dir(), to, folder;
  bool json = false;
  CLI::App* copy = app.add_subcommand("backup", "copy a folder that may be in use");
  copy->add_option("--data-dir", data_dir, "the coordinator's folder")
      ->envname("SHOAL_COORDINATOR_DATA_DIR")
      ->capture_default_str();
  copy->add_option("--to", to, "a new folder for the copy")->required();
  copy->add_flag("--json", json, "the answer as JSON");
  CLI::App* look = app.add_subcommand("restore-check", "would a coordinator start on this copy");
  look->add_option("folder", folder, "of a backup")->required();
  look->add_flag("--json", json, "the answer as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : kExitRefused;
  }
  return copy->parsed() ? backup(data_dir, to, json) : restore_check(folder, json);
}

}  // namespace shoal::coordinator
