// See store_check.h.
#include "coordinator/service/store_check.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "coordinator/core/coordinator.h"
#include "coordinator/store/sqlite.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kRestore = "restore state.db from a backup (docs/store.md)";

// Its first finding, "ok" when there is none.
Result<std::string> integrity_of(const std::string& file) {
  auto database = Database::open(file, OpenMode::kReadOnly, Durability::kFull);
  if (!database) return database.error();
  auto check = (*database)->prepare("PRAGMA integrity_check");
  if (!check) return check.error();
  const auto row = check->step();
  if (!row) return row.error();
  return *row ? std::string(check->text(0)) : std::string("no answer");
}

}  // namespace

Result<std::string> check_store(const std::string& folder, const Options& options) {
  const std::string file = folder + "/state.db";
  if (std::error_code ignored; !std::filesystem::exists(file, ignored)) {
    return Error{Code::kNotFound, "there is no " + file, "--data-dir",
                 "name the data folder of a coordinator, or a copy of it"};
  }
  const auto integrity = integrity_of(file);
  if (!integrity) return integrity.error();
  if (*integrity != "ok") {
    return Error{Code::kDataLoss, file + " is damaged: " + *integrity, "--data-dir", kRestore};
  }
  auto store = Store::open(folder);
  if (!store) return store.error();
  const auto snapshot = (*store)->load();
  if (!snapshot) return snapshot.error();
  const nlohmann::ordered_json json = {{"folder", folder},
                                       {"integrity", *integrity},
                                       {"digest", to_hex(Coordinator(options, *snapshot).digest())},
                                       {"jobs", snapshot->jobs.size()},
                                       {"agents", snapshot->agents.size()},
                                       {"checkpoints", snapshot->checkpoints.size()}};
  return json.dump();
}

}  // namespace shoal::coordinator
