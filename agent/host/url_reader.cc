#include "agent/host/url_reader.h"

#include "objects/location.h"
#include "threads/clock.h"

namespace shoal::agent {
namespace {

// A signed URL is not begun with when it ends this soon.
constexpr Duration kLeft = seconds(120);

constexpr const char* kOtherPlace =
    "restore the former content, or add the new content as another dataset";

objects::ClientOptions options_of(const objects::Reach& reach, const objects::Patience& patience) {
  return {.reach = reach, .patience = patience, .user_agent = "shoal-agent"};
}

// Whether a server may answer differently next time. A refused address stays refused.
bool may_pass(Code code) {
  return code == Code::kDeadlineExceeded || code == Code::kCancelled ||
         code == Code::kResourceExhausted;
}

}  // namespace

UrlReader::UrlReader(const objects::Reach& reach, SignUrl sign, const objects::Patience& patience)
    : sign_(std::move(sign)),
      web_(options_of(reach, patience)),
      stores_(options_of({.clear_allowed = true, .private_allowed = true, .proxy = reach.proxy},
                         patience)) {}

void UrlReader::stop() {
  web_.stop();
  stores_.stop();
}

Result<std::string> UrlReader::get(const objects::Client& client, const std::string& url,
                                   const FileRange& range) {
  std::string content;
  const auto got = client.get(
      objects::Request{.url = url},
      {.from = Bytes(range.from), .size = Bytes(range.count), .whole = Bytes(range.whole)},
      [&](std::span<const std::byte> bytes) {
        content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return true;
      });
  if (got.ok()) return content;
  Error error = got.error();
  if (may_pass(error.code)) error.code = Code::kUnavailable;
  if (error.code == Code::kNotFound || error.code == Code::kDataLoss) error.remedy = kOtherPlace;
  return error;
}

Result<std::string> UrlReader::signed_url(const FileRange& range) {
  {
    const MutexLock guard(mutex_);
    const auto known = kept_.find(range.sha256);
    if (known != kept_.end() && steady_now() + kLeft < known->second.until)
      return known->second.url;
  }
  const Instant asked = steady_now();
  auto made = sign_(range);
  if (!made) return made.error();
  const MutexLock guard(mutex_);
  if (kept_.size() >= kSignedMax) kept_.erase(kept_.begin());
  kept_[range.sha256] = {made->url, asked + made->valid};
  return std::move(made->url);
}

// A store that refuses what was signed is asked again with a new signature: the key was replaced,
// or the clocks differ.
Result<std::string> UrlReader::read_signed(const FileRange& range) {
  const auto url = signed_url(range);
  if (!url) return url.error();
  auto got = get(stores_, *url, range);
  if (got.ok() || got.error().code != Code::kPermissionDenied) return got;
  const MutexLock guard(mutex_);
  kept_.erase(range.sha256);
  Error error = got.error();
  error.code = Code::kUnavailable;
  return error;
}

Result<std::string> UrlReader::read(const FileRange& range) {
  return objects::is_object(range.url) ? read_signed(range) : get(web_, range.url, range);
}

}  // namespace shoal::agent
