// Measures a block of a model for the coordinator (messages/block_times.h): the first trainer of a
// device does it while no replica is on the device. It answers at once when that cannot be; an
// answer that finds the link down is lost, and the coordinator asks again.
#include <algorithm>
#include <string>
#include <utility>

#include "agent/core/state.h"
#include "base/wire_text.h"

namespace shoal::agent {

void Agent::State::measure_block(const MeasureBlock& asked) {
  const Digest shape = digest_of(asked.shape);
  const auto refuse = [&](std::string why) {
    say(BlockMeasured{asked.device, shape, {}, std::move(why)});
  };
  const std::int32_t first = asked.device;  // the slot of its first trainer
  if (!has_device(first)) return refuse("there is no such device");
  Trainer& trainer = trainers[static_cast<std::size_t>(first)];
  const bool trains = std::ranges::any_of(replicas, [&](const auto& entry) {
    return trainers[static_cast<std::size_t>(entry.second.slot)].device.index == asked.device;
  });
  if (!running() || trains) return refuse("a replica is on it");
  const bool ready = trainer.state == TrainerState::kReady && trainer.attached;
  if (!ready || trainer.releasing || trainer.identity.runs.kind == TrainerKind::kPython) {
    return refuse("its trainer is not ready");
  }
  if (trainer.protocol < kMeasuresBlocksSince) return refuse("its trainer is of an older version");
  if (trainer.measures == shape) return;  // the answer is on its way
  if (trainer.measures) return refuse("it measures another model");
  trainer.measures = shape;
  emit(SendTrainer{trainer_id(first), asked});
}

void Agent::State::block_measured(std::int32_t slot, const BlockMeasured& measured) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  const bool other = measured.shape && trainer.measures != measured.shape;
  if (!trainer.measures || other) return drop();
  BlockMeasured own = measured;
  own.device = trainer.device.index;
  own.shape = *std::exchange(trainer.measures, {});
  trainer.worked_at = now;
  if (!say(own)) drop();
}

void Agent::State::end_measuring(std::int32_t slot, const std::string& why) {
  Trainer& trainer = trainers[static_cast<std::size_t>(slot)];
  if (!trainer.measures) return;
  const Digest shape = *trainer.measures;
  trainer.measures.reset();
  say(BlockMeasured{trainer.device.index, shape, {}, valid_text(why, kBlockErrorBytesMax)});
}

}  // namespace shoal::agent
