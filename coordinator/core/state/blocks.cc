#include "coordinator/core/state/blocks.h"

#include <algorithm>
#include <cmath>

#include "coordinator/core/state/health_record.h"
#include "swarm/core/plan/cost_model.h"

namespace shoal::coordinator {
namespace {

constexpr double kSameSpeed = 1.25;  // between two matrix products of one device

bool is_of(const MeasuredBlock& block, const Device& device) {
  return is_same_device({.index = block.device, .uuid = block.uuid}, device);
}

bool computes_alike(const Device& before, const Device& now) {
  if (before.gflops <= 0 || now.gflops <= 0) return true;
  return std::max(before.gflops, now.gflops) <= kSameSpeed * std::min(before.gflops, now.gflops);
}

const Device* device_of(const State& state, const ReplicaRecord& replica) {
  const std::vector<Device>& devices = state.agents.at(replica.agent).devices;
  const auto device = std::ranges::find(devices, replica.device, &Device::index);
  return device == devices.end() ? nullptr : &*device;
}

std::optional<BlockTimes> block_of(const State& state, const ReplicaRecord& replica,
                                   const Digest& shape) {
  const Device* device = device_of(state, replica);
  if (device == nullptr) return std::nullopt;
  return block_of(state.agents.at(replica.agent), *device, shape);
}

}  // namespace

Digest shape_of(const JobSpec& spec) {
  return spec.trainer.kind == TrainerKind::kPython ? Digest() : digest_of(block_shape(spec));
}

std::optional<BlockTimes> block_of(const AgentRecord& agent, const Device& device,
                                   const Digest& shape) {
  const auto block = std::ranges::find_if(agent.blocks, [&](const MeasuredBlock& one) {
    return one.shape == shape && is_of(one, device);
  });
  if (block == agent.blocks.end()) return std::nullopt;
  return block->times;
}

void keep_block(AgentRecord& agent, const Device& device, const Digest& shape,
                const BlockTimes& times, Instant now) {
  std::erase_if(agent.blocks,
                [&](const MeasuredBlock& one) { return one.shape == shape && is_of(one, device); });
  const auto count = std::ranges::count_if(
      agent.blocks, [&](const MeasuredBlock& one) { return is_of(one, device); });
  if (static_cast<std::size_t>(count) >= kBlocksPerDeviceMax) {
    agent.blocks.erase(std::ranges::find_if(
        agent.blocks, [&](const MeasuredBlock& one) { return is_of(one, device); }));
  }
  agent.blocks.push_back({device.index, device.uuid, shape, times, now});
}

void forget_stale_blocks(AgentRecord& agent, const std::vector<Device>& before) {
  std::erase_if(agent.blocks, [&](const MeasuredBlock& block) {
    const auto mine = [&](const Device& device) { return is_of(block, device); };
    const auto now = std::ranges::find_if(agent.devices, mine);
    if (now == agent.devices.end()) return true;
    const auto old = std::ranges::find_if(before, mine);
    return old != before.end() && !computes_alike(*old, *now);
  });
  for (MeasuredBlock& block : agent.blocks) {
    block.device = std::ranges::find_if(agent.devices, [&](const Device& device) {
                     return is_of(block, device);
                   })->index;
  }
}

std::optional<double> block_speed_of(const State& state, const ReplicaRecord& replica) {
  const JobRecord& job = state.jobs.at(replica.job);
  const bool any = !state.agents.at(replica.agent).blocks.empty();
  if (job.stages.size() < 2 || !any) return std::nullopt;
  const Digest shape = shape_of(job.spec);
  const auto block = block_of(state, replica, shape);
  if (!block) return std::nullopt;
  for (const ReplicaId id : live_replicas(state, replica.job)) {
    if (!block_of(state, state.replicas.at(id), shape)) return std::nullopt;
  }
  const swarm::CostModel model(job.spec, swarm::cost_options(job.spec));
  return model.flops({1, 2}) * static_cast<double>(model.tokens_per_microbatch()) /
         block->block.seconds();
}

}  // namespace shoal::coordinator
