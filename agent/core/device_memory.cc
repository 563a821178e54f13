#include "agent/core/device_memory.h"

#include <algorithm>
#include <cmath>

namespace shoal::agent {
namespace {

constexpr std::int64_t kNewsShare = 64;
constexpr double kHostShare = 0.8;
constexpr Duration kListEvery = seconds(60);

}  // namespace

bool is_news(Bytes told, Bytes now, Bytes total) {
  const std::int64_t whole = total > Bytes() ? total.count() : told.count();
  return told != now && std::abs(now.count() - told.count()) >= whole / kNewsShare;
}

Bytes usable_of_host(Bytes room, Bytes declared) {
  if (declared > Bytes()) return std::min(declared, room);
  return Bytes(static_cast<std::int64_t>(static_cast<double>(room.count()) * kHostShare));
}

bool GpuMemory::wants_list(Instant now) const {
  if (!listed_at_) return true;
  return now - *listed_at_ >= kListEvery && is_news(used_at_list_, used_, total_);
}

void GpuMemory::take(Instant now, Bytes total, Bytes used, bool listed, std::optional<Bytes> ours) {
  total_ = total;
  used_ = std::min(used, total);
  if (listed) {
    listed_at_ = now;
    used_at_list_ = used_;
  }
  if (ours) elsewhere_ = used_ - std::min(*ours, used_);
  elsewhere_ = std::min(elsewhere_, used_);
}

}  // namespace shoal::agent
