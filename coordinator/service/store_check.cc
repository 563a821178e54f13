// See store_check.h.
#include "coordinator/service/store_check.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "coordinator/core/coordinator.h"
#include "coordinator/store/sqlite.h"
#include "coordinator/store/store.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kRestore = "restore state.db from a backup (docs/backup.md)";

// Its first finding; empty when there is none.
Result<std::string> damage_of(const std::string& file) {
  auto database = Database::open(file, OpenMode::kReadOnly, Durability::kFull);
  if (!database) return database.error();
  return (*database)->damage(true);
}

}  // namespace

Result<std::string> check_store(const std::string& folder, const Options& options) {
  const std::string file = folder + "/state.db";
  if (std::error_code ignored; !std::filesystem::exists(file, ignored)) {
    return Error{Code::kNotFound, "there is no " + file, "--data-dir",
                 "name the data folder of a coordinator, or a copy of it"};
  }
  const auto damage = damage_of(file);
  if (!damage) return damage.error();
  if (!damage->empty()) {
    return Error{Code::kDataLoss, file + " is damaged: " + *damage, "--data-dir", kRestore};
  }
  auto store = Store::open(folder);
  if (!store) return store.error();
  const auto snapshot = (*store)->load();
  if (!snapshot) return snapshot.error();
  const nlohmann::ordered_json json = {{"folder", folder},
                                       {"integrity", "ok"},
                                       {"digest", to_hex(Coordinator(options, *snapshot).digest())},
                                       {"jobs", snapshot->jobs.size()},
                                       {"agents", snapshot->agents.size()},
                                       {"checkpoints", snapshot->checkpoints.size()}};
  return json.dump();
}

}  // namespace shoal::coordinator
