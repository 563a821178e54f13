#include "cli/commands/upload.h"

#include <algorithm>
#include <cstdio>

#include "base/number_text.h"
#include "base/sha256.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;
constexpr int kTriesMax = 6;  // without a piece that went through: 1, 2, 4 … seconds apart

// Uploads one file, from where the coordinator has it.
class Upload {
 public:
  Upload(const Api& api, const UploadedFile& file)
      : api_(api), name_(file.name), sha256_(file.sha256), size_(file.size) {}

  Status run(const ReadPiece& read) {
    int failed = 0;
    Status known = announce();
    while (!complete_) {
      const Status sent = known.ok() ? send(read) : known;
      if (sent.ok()) {
        failed = 0;
        continue;
      }
      const Code code = sent.error().code;
      const bool again =
          code == Code::kUnavailable || code == Code::kDeadlineExceeded || code == Code::kConflict;
      if (!again || ++failed >= kTriesMax) return sent;
      if (!pause_for(1 << (failed - 1))) return Error{Code::kCancelled, "interrupted", "", ""};
      known = announce();  // how far it is
    }
    return {};
  }

 private:
  Status announce() {
    const Json body{{"sha256", sha256_}, {"size", size_}};
    return note(api_.post("/files", body.dump(), "application/json"));
  }

  Status send(const ReadPiece& read) {
    const auto piece = read(received_, std::min(kPieceBytes, size_ - received_));
    if (!piece) return piece.error();
    Status sent =
        note(api_.put("/files/" + sha256_ + "?from=" + std::to_string(received_), *piece));
    if (sent.ok() || sent.error().code != Code::kValidation) return sent;
    return Error{Code::kValidation,
                 name_ + " has changed since it was hashed: " + sent.error().message, "",
                 "add it when it is complete"};
  }

  Status note(const Result<Json>& file) {
    if (!file) return file.error();
    received_ = static_cast<std::int64_t>(number_at(*file, "received"));
    const Json* complete = at_path(*file, "complete");
    complete_ = complete != nullptr && complete->is_boolean() && complete->get<bool>();
    show_progress("sending", name_, received_, size_);
    return {};
  }

  const Api& api_;
  const std::string name_, sha256_;
  const std::int64_t size_;
  std::int64_t received_ = 0;
  bool complete_ = false;
};

}  // namespace

void show_progress(const std::string& what, const std::string& name, std::int64_t done,
                   std::int64_t size) {
  if (!terminal().stderr_is_tty) return;
  std::fprintf(stderr, "\r\033[K%s %s  %s of %s", what.c_str(), name.c_str(),
               size_text(static_cast<double>(done)).c_str(),
               size_text(static_cast<double>(size)).c_str());
  if (done >= size) std::fputs("\r\033[K", stderr);
}

Status upload(const Api& api, const UploadedFile& file, const ReadPiece& read) {
  return Upload(api, file).run(read);
}

Status upload_text(const Api& api, const std::string& name, const std::string& text) {
  const UploadedFile file{name, sha256_of(text), static_cast<std::int64_t>(text.size())};
  return upload(api, file, [&](std::int64_t from, std::int64_t count) {
    return Result<std::string>(
        text.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(count)));
  });
}

}  // namespace shoal::cli
