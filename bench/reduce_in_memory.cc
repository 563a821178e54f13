// See reduce_in_memory.h.
#include "bench/reduce_in_memory.h"

#include <array>
#include <memory>
#include <optional>

#include "base/check.h"
#include "outer_opt/core/reduce/make_session.h"

namespace shoal::bench {
namespace {

using outer_opt::FrameKind;
using outer_opt::ReduceSession;
using outer_opt::SessionState;

struct Letter {  // one frame between two members, until it is admitted
  outer_opt::FrameHeader header;
  std::vector<std::byte> payload;
};

class Exchange {
 public:
  Exchange(const ReducePlan& plan, const std::vector<outer_opt::ReduceInput>& inputs)
      : plan_(plan),
        count_(plan.members.size()),
        averages_(count_, std::vector<float>(static_cast<std::size_t>(plan.value_count))),
        letters_(count_ * count_ * kKinds.size()) {
    for (std::size_t i = 0; i < count_; ++i) {
      auto session =
          make_session(plan, plan.members[i].replica, plan.frame_values, inputs[i], averages_[i]);
      SHOAL_CHECK(session.ok(), session.ok() ? "" : to_string(session.error()).c_str());
      sessions_.push_back(std::move(session).value());
      work_locally(*sessions_.back());
    }
  }

  Reduced run() {
    while (pass()) {
    }
    for (const auto& session : sessions_) {
      SHOAL_CHECK(session->state() == SessionState::kDone, "a reduce without losses must end");
      SHOAL_CHECK(session->digest() == sessions_[0]->digest(), "members differ");
    }
    std::vector<PartSeen> seen;
    for (const auto& session : sessions_) seen.push_back(session->seen());
    return {std::move(averages_[0]), bytes_ / static_cast<double>(count_), std::move(seen)};
  }

 private:
  static constexpr std::array kKinds = {FrameKind::kContribution, FrameKind::kAverage};

  static void work_locally(ReduceSession& session) {
    while (auto work = session.local_work()) session.finish(*work, session.run(*work, {}));
  }

  // Every stream moves by one frame where it can; false: nothing moved.
  bool pass() {
    bool moved = false;
    for (std::size_t from = 0; from < count_; ++from) {
      for (std::size_t to = 0; to < count_; ++to) {
        if (from == to) continue;
        for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
          auto& letter = letters_[(from * count_ + to) * kKinds.size() + kind];
          if (!letter) letter = write(static_cast<int>(from), static_cast<int>(to), kKinds[kind]);
          moved |= letter && deliver(static_cast<int>(from), static_cast<int>(to), letter);
        }
      }
    }
    return moved;
  }

  std::optional<Letter> write(int from, int to, FrameKind kind) {
    ReduceSession& session = *sessions_[static_cast<std::size_t>(from)];
    const auto frame = session.next_frame(to, kind);
    if (!frame) return std::nullopt;
    const auto resident = session.resident(*frame);
    Letter letter{{}, {resident.begin(), resident.end()}};
    if (resident.empty()) {
      letter.payload.resize(session.payload_size(*frame));
      session.encode(*frame, letter.payload);
    }
    letter.header = session.header(*frame, letter.payload);
    bytes_ += static_cast<double>(outer_opt::kFrameHeaderSize + letter.payload.size());
    return letter;
  }

  bool deliver(int from, int to, std::optional<Letter>& letter) {
    ReduceSession& session = *sessions_[static_cast<std::size_t>(to)];
    const auto work = session.admit(from, letter->header);
    if (!work) return false;
    const std::array<std::span<const std::byte>, 1> pieces{letter->payload};
    session.finish(*work, session.run(*work, pieces));
    letter.reset();
    work_locally(session);
    return true;
  }

  const ReducePlan& plan_;
  std::size_t count_;
  std::vector<std::vector<float>> averages_;
  std::vector<std::optional<Letter>> letters_;
  std::vector<std::unique_ptr<ReduceSession>> sessions_;
  double bytes_ = 0;
};

}  // namespace

Reduced reduce_in_memory(const ReducePlan& plan,
                         const std::vector<outer_opt::ReduceInput>& inputs) {
  return Exchange(plan, inputs).run();
}

}  // namespace shoal::bench
