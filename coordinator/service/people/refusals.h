// Counts what the ports of a cluster refuse, for /metrics, and writes refused tokens, logins and
// hosts to the audit trail. Strangers decide how often that happens, so the rows are bounded: one
// per source and action in a period, and a maximum per hour. A row says how many refusals it stands
// for; the counters count all of them.
//
// Thread-safe; never waits for a disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "coordinator/meters/meters.h"
#include "coordinator/store/people_rows.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

// Words of the audit trail for what was refused. Who it was is mostly not known, so `principal` is
// kStranger, and the object is where it came from.
inline constexpr const char* kStranger = "(stranger)";
inline constexpr const char* kRefusedLogin = "refused_login";
inline constexpr const char* kRefusedToken = "refused_token";
inline constexpr const char* kRefusedJoin = "refused_join";
inline constexpr const char* kRefusedRenewal = "refused_renewal";
inline constexpr const char* kRefusedAgent = "refused_agent";
inline constexpr const char* kRefusedObject = "refused_object";  // of a known principal

struct RefusalNoteLimits {
  Duration quiet = seconds(600);       // between two rows of one source and action
  double per_hour = 30, at_once = 60;  // rows of all sources; at_once: after a pause
  std::size_t sources_max = 1'000;     // that are remembered; the one noted longest ago goes
};

class Refusals {
 public:
  using Note = std::function<void(AuditRecord)>;  // must not block

  // `note` null: only counted.
  Refusals(Note note, std::function<Instant()> clock, RefusalNoteLimits limits = {},
           std::shared_ptr<Meters> meters = std::make_shared<Meters>());
  explicit Refusals(std::shared_ptr<Meters> meters = std::make_shared<Meters>())
      : Refusals(nullptr, nullptr, {}, std::move(meters)) {}

  void count(Port port, RefusalReason reason) { meters_->refusals.at(port, reason).Increment(); }
  RefusalCounts counts(Port port) const { return meters_->refusals.counts(port); }

  // For the audit trail. `why` is for people, and may hold what the stranger has written.
  void tell(std::string_view action, const std::string& source, std::string_view why,
            const std::string& principal = kStranger) SHOAL_EXCLUDES(mutex_);

 private:
  struct Source {
    Instant noted_at;
    std::int64_t untold = 0;  // refusals since
  };
  using Sources = std::map<std::pair<std::string, std::string>, Source>;  // by action and source

  bool take_row(Instant now) SHOAL_REQUIRES(mutex_);
  Source* find(std::string_view action, const std::string& source, Instant now)
      SHOAL_REQUIRES(mutex_);

  const Note note_;
  const std::function<Instant()> clock_;
  const RefusalNoteLimits limits_;
  const std::shared_ptr<Meters> meters_;

  Mutex mutex_;
  Sources sources_ SHOAL_GUARDED_BY(mutex_);
  double rows_ SHOAL_GUARDED_BY(mutex_) = 0;  // that may still be written
  Instant refilled_at_ SHOAL_GUARDED_BY(mutex_);
  std::int64_t unnoted_ SHOAL_GUARDED_BY(mutex_) = 0;  // for want of rows
};

}  // namespace shoal::coordinator
