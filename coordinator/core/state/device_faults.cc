#include "coordinator/core/state/device_faults.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shoal::coordinator {
namespace {

// 48: uncorrectable memory error. 62: micro-controller halted. 64: a row could not be remapped. 74:
// NVLink. 79: off the bus. 95: uncontained memory error. 119, 120: the GSP does not answer or
// failed. 140: unrecovered memory error. 143: it could not be initialized.
constexpr std::array kFatalXids{48, 62, 64, 74, 79, 95, 119, 120, 140, 143};

bool answers(const DeviceSample& sample) {
  return sample.answer == DeviceAnswer::kWhole || sample.answer == DeviceAnswer::kPartial;
}

std::int64_t count_of(const DeviceErrors& errors, std::int32_t xid) {
  const auto found = std::ranges::find(errors.xids, xid, &XidCount::xid);
  return found == errors.xids.end() ? 0 : found->count;
}

// The report before this one had the fault, too.
bool has_lasting(const DeviceFacts* before, DeviceFault fault) {
  if (before == nullptr) return false;
  if (fault == DeviceFault::kLost) return before->answer == DeviceAnswer::kLost;
  if (!before->errors) return false;
  const DeviceErrors& known = *before->errors;
  if (fault == DeviceFault::kRecoveryAction) return known.recovery != RecoveryAction::kNone;
  if (fault == DeviceFault::kRemapFailed) return known.remap_failed;
  return fault == DeviceFault::kRemapPending && known.remap_pending;
}

std::string reason_of(DeviceFault fault, const DeviceSample& now) {
  switch (fault) {
    case DeviceFault::kLost:
      return "its UUID does not answer any more" + (now.error.empty() ? "" : ": " + now.error);
    case DeviceFault::kRecoveryAction:
      return std::string("its driver asks for ") + to_string(now.errors->recovery);
    case DeviceFault::kRemapFailed:
      return "a row of its memory could not be remapped";
    case DeviceFault::kRemapPending:
      return "a row of its memory waits for its remap";
    case DeviceFault::kNone:
    case DeviceFault::kXid:
    case DeviceFault::kUncorrected:
      return {};  // new_fault() names the numbers
  }
  return {};
}

std::int32_t new_fatal_xid(const DeviceFacts* before, const DeviceErrors& now, Duration unheard) {
  for (const XidCount& xid : now.xids) {
    if (!is_fatal_xid(xid.xid) || xid.count <= 0) continue;
    const bool is_new = before == nullptr ? xid.ago < unheard
                        : before->errors  ? xid.count > count_of(*before->errors, xid.xid)
                                          : true;
    if (is_new) return xid.xid;
  }
  return 0;
}

std::int64_t new_uncorrected(const DeviceFacts* before, const DeviceErrors& now) {
  if (before == nullptr || !before->errors) return 0;  // they may be of years ago
  return std::max<std::int64_t>(0, now.ecc_uncorrected - before->errors->ecc_uncorrected);
}

}  // namespace

DeviceFacts facts_after(const DeviceFacts* before, const DeviceSample& now) {
  DeviceFacts facts{now.answer, now.errors};
  const DeviceErrors* known = before == nullptr || !before->errors ? nullptr : &*before->errors;
  if (!facts.errors && known != nullptr) facts.errors = *known;
  if (!facts.errors) return facts;
  for (XidCount& xid : facts.errors->xids) {
    xid.ago = {};
    if (known != nullptr) xid.count = std::max(xid.count, count_of(*known, xid.xid));
  }
  if (known == nullptr) return facts;
  for (const XidCount& xid : known->xids) {
    const bool said = std::ranges::count(facts.errors->xids, xid.xid, &XidCount::xid) > 0;
    if (!said && facts.errors->xids.size() < kXidsMax) facts.errors->xids.push_back(xid);
  }
  facts.errors->ecc_uncorrected = std::max(facts.errors->ecc_uncorrected, known->ecc_uncorrected);
  return facts;
}

bool is_fatal_xid(std::int32_t xid) { return std::ranges::count(kFatalXids, xid) > 0; }

DeviceFault lasting_fault(const DeviceSample& now) {
  if (now.answer == DeviceAnswer::kLost) return DeviceFault::kLost;
  if (!answers(now) || !now.errors) return DeviceFault::kNone;
  if (now.errors->recovery != RecoveryAction::kNone) return DeviceFault::kRecoveryAction;
  if (now.errors->remap_failed) return DeviceFault::kRemapFailed;
  if (now.errors->remap_pending) return DeviceFault::kRemapPending;
  return DeviceFault::kNone;
}

FaultSeen new_fault(const DeviceFacts* before, const DeviceSample& now, Duration unheard) {
  FaultSeen seen;
  const auto add = [&](DeviceFault fault, std::string reason) {
    if (seen.fault == DeviceFault::kNone) seen.fault = fault;
    seen.reasons.push_back(std::move(reason));
  };
  const DeviceFault lasting = lasting_fault(now);
  if (lasting != DeviceFault::kNone && !has_lasting(before, lasting)) {
    add(lasting, reason_of(lasting, now));
  }
  if (!now.errors) return seen;
  if (const std::int32_t xid = new_fatal_xid(before, *now.errors, unheard); xid != 0) {
    add(DeviceFault::kXid, "its driver reported XID " + std::to_string(xid));
  }
  if (const std::int64_t count = new_uncorrected(before, *now.errors); count > 0) {
    add(DeviceFault::kUncorrected,
        "its memory had " + std::to_string(count) +
            (count == 1 ? " error that was not corrected" : " errors that were not corrected"));
  }
  return seen;
}

FaultSeen fault_after(DeviceFault fault, const DeviceFacts* before, const DeviceSample& now) {
  const DeviceFault lasting = lasting_fault(now);
  if (lasting == fault) return {fault, {}};
  if (lasting != DeviceFault::kNone) return {lasting, {reason_of(lasting, now)}};
  if (!answers(now)) return {fault, {}};
  switch (fault) {
    case DeviceFault::kNone:
    case DeviceFault::kLost:
      return {};
    case DeviceFault::kRecoveryAction:
    case DeviceFault::kRemapFailed:
    case DeviceFault::kRemapPending:
      return {now.errors ? DeviceFault::kNone : fault, {}};
    case DeviceFault::kXid:
      return {fault, {}};
    case DeviceFault::kUncorrected: {
      const bool known = before != nullptr && before->errors && now.errors;
      const bool fell = known && now.errors->ecc_uncorrected < before->errors->ecc_uncorrected;
      return {fell ? DeviceFault::kNone : fault, {}};
    }
  }
  return {fault, {}};
}

std::string what_ends(DeviceFault fault, const std::string& agent) {
  const std::string uncordon = "shoal agent uncordon " + agent;
  switch (fault) {
    case DeviceFault::kNone:
      return "run " + uncordon;
    case DeviceFault::kLost:
      return "the cordon ends when its UUID answers again, or with " + uncordon;
    case DeviceFault::kRecoveryAction:
      return "reset the GPU or reboot its host: the cordon ends when its driver asks for nothing "
             "any more, or with " +
             uncordon;
    case DeviceFault::kRemapFailed:
      return "replace the card: the cordon ends when no remap has failed, or with " + uncordon;
    case DeviceFault::kRemapPending:
      return "reset the GPU or reboot its host: the cordon ends when no remap is pending, or "
             "with " +
             uncordon;
    case DeviceFault::kXid:
      return "reset the GPU or reboot its host, then run " + uncordon;
    case DeviceFault::kUncorrected:
      return "reset the GPU or reboot its host: the cordon ends when its counter of errors has "
             "begun anew, or with " +
             uncordon;
  }
  return {};
}

}  // namespace shoal::coordinator
