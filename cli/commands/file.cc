// shoal file …: what was uploaded, for datasets and as code of jobs, and what uses it.
#include <ctime>
#include <utility>

#include "base/number_text.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

constexpr std::size_t kHashShown = 12;
constexpr std::size_t kPrefixMin = 8;
// A younger file may be of a job or a dataset that is about to be made.
constexpr double kUnusedForS = 3600;

bool is_unused(const Json& file) { return text_at(file, "used_by", "").empty(); }

Result<Json> stored_files(const Context& context) {
  auto files = context.api.list("/files");
  if (!files) return files.error();
  for (const Json& file : files->at("items")) {
    if (at_path(file, "used_by") != nullptr) continue;
    return Error{Code::kIncompatible, "this coordinator does not say what uses its files", "",
                 "use a coordinator of the version of this binary (`shoal version`)"};
  }
  return std::move(files->at("items"));
}

// The hash of the one file that begins so.
Result<std::string> find_hash(const Json& files, const std::string& prefix) {
  std::string found;
  for (const Json& file : files) {
    const std::string sha256 = text_at(file, "sha256");
    if (!sha256.starts_with(prefix)) continue;
    if (!found.empty()) {
      return Error{Code::kInvalidArgument, "several files begin with " + prefix, "SHA256",
                   "give more digits"};
    }
    found = sha256;
  }
  if (!found.empty() && prefix.size() >= kPrefixMin) return found;
  return Error{Code::kNotFound, "no file is " + prefix, "SHA256",
               "give the SHA-256 or at least its first " + std::to_string(kPrefixMin) +
                   " digits; `shoal file ls` lists them"};
}

// The caller's own files that are whole, that nothing uses, and that are no longer new.
Result<std::vector<std::string>> my_unused(const Context& context, const Json& files) {
  const auto me = context.api.get("/session");
  if (!me) return me.error();
  const double now = static_cast<double>(::time(nullptr));
  std::vector<std::string> hashes;
  for (const Json& file : files) {
    if (!is_unused(file) || text_at(file, "owner") != text_at(*me, "name")) continue;
    const double age = now - parse_rfc3339(text_at(file, "created_at")).value_or(now);
    if (text_at(file, "complete") == "true" && age >= kUnusedForS) {
      hashes.push_back(text_at(file, "sha256"));
    }
  }
  return hashes;
}

Result<std::vector<std::string>> chosen(const Context& context, const FileRemoval& removal) {
  const auto files = stored_files(context);
  if (!files) return files.error();
  if (removal.unused) return my_unused(context, *files);
  std::vector<std::string> hashes;
  for (const std::string& prefix : removal.files) {
    const auto hash = find_hash(*files, prefix);
    if (!hash) return hash.error();
    hashes.push_back(*hash);
  }
  return hashes;
}

}  // namespace

Result<int> file_ls(const Context& context, bool unused) {
  auto files = stored_files(context);
  if (!files) return files.error();
  Json shown = Json::array();
  for (const Json& file : *files) {
    if (!unused || is_unused(file)) shown.push_back(file);
  }
  if (context.json) return print(Json{{"items", shown}}.dump(2) + "\n"), kExitOk;
  Table table({"SHA-256", ">SIZE", "OWNER", "UPLOADED", "USED BY"});
  const double now = static_cast<double>(::time(nullptr));
  for (const Json& file : shown) {
    const std::string user = text_at(file, "used_by", "");
    const bool complete = text_at(file, "complete") == "true";
    table.add({text_at(file, "sha256").substr(0, kHashShown), size_text(number_at(file, "size")),
               text_at(file, "owner"),
               complete ? human_age(text_at(file, "created_at"), now)
                        : size_text(number_at(file, "received")) + " so far",
               user.empty() ? "-" : user});
  }
  if (table.empty()) say(unused ? "Every file is used." : "No files yet.");
  print(table.render(terminal().stdout_color));
  return kExitOk;
}

Result<int> file_rm(const Context& context, const FileRemoval& removal) {
  if (removal.files.empty() != removal.unused) {
    return Error{Code::kInvalidArgument, "files to remove, or --unused", "SHA256",
                 "give one of the two; `shoal file ls` lists them"};
  }
  const auto hashes = chosen(context, removal);
  if (!hashes) return hashes.error();
  Json removed = Json::array();
  double bytes = 0;
  for (const std::string& hash : *hashes) {
    const auto gone = context.api.remove("/files/" + hash);
    if (!gone) return gone.error();
    bytes += number_at(*gone, "size");
    removed.push_back(*gone);
  }
  if (context.json) return print(Json{{"removed", removed}}.dump(2) + "\n"), kExitOk;
  say("Removed " + plural(static_cast<std::int64_t>(removed.size()), "file") + ", " +
      size_text(bytes) + ".");
  return kExitOk;
}

}  // namespace shoal::cli
