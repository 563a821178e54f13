#include "cli/commands/send_code.h"

#include <filesystem>

#include "base/sha256.h"
#include "cli/code_folder.h"
#include "cli/commands/upload.h"
#include "transfer/bundle.h"

namespace shoal::cli {
namespace {

constexpr const char* kOrigin = "--code";
constexpr const char* kHash = "sha256:";

}  // namespace

Result<PackedCode> pack_code(const std::string& folder) {
  const auto files = code_files(folder);
  if (!files) return files.error();
  auto bundle = pack_bundle(folder, *files);
  if (!bundle) {
    Error error = bundle.error();
    error.message = error.field + " " + error.message;
    error.field = kOrigin;
    return error;
  }
  const std::string name = kHash + sha256_of(*bundle);
  return PackedCode{std::move(*bundle), name};
}

Status name_code(const PackedCode& code, const std::string& folder, JobFile& file) {
  const std::string entry = text_at(file.spec(), "trainer/entry", "");
  std::error_code missing;
  const bool there =
      !entry.empty() && std::filesystem::is_regular_file(folder + "/" + entry, missing);
  if (!entry.empty() && !there) {
    return Error{Code::kValidation,
                 "the job's trainer.entry, " + entry + ", is not a file in " + folder, kOrigin,
                 "name the folder of the program, and in trainer.entry its path in it"};
  }
  return file.apply_set("trainer.code=\"" + code.name + "\"", kOrigin);
}

Status send_code(const Api& api, const PackedCode& code) {
  return upload_text(api, "code", code.bundle);
}

}  // namespace shoal::cli
