#include "coordinator/core/decisions/block_speeds.h"

#include <algorithm>

namespace shoal::coordinator {
namespace {

constexpr double kFlopsPerGflop = 1e9;
constexpr double kSequenceMax_s = 2;  // of the three parts together

struct Sums {
  double measured = 0, promised = 0;           // GFLOP/s of devices that have both
  double embedding = 0, head = 0, blocks = 0;  // in blocks, and how many were added
};

bool any_block(const PlacementInput& input) {
  const auto has = [](const auto& device) { return device.block.has_value(); };
  return std::ranges::any_of(input.free, has) || std::ranges::any_of(input.live, has);
}

double ratio(Duration part, Duration block) { return part.seconds() / block.seconds(); }

double gflops_of(double block_gflop, const BlockTimes& block) {
  return block_gflop / block.block.seconds();
}

}  // namespace

void go_by_blocks(PlacementInput& input) {
  if (!any_block(input)) return;
  const swarm::CostModel model(input.spec, swarm::cost_options(input.spec));
  const double block_gflop =
      model.flops({1, 2}) * static_cast<double>(model.tokens_per_microbatch()) / kFlopsPerGflop;
  Sums sums;
  const auto add = [&](const auto& device) {
    if (!device.block) return;
    sums.embedding += ratio(device.block->embedding, device.block->block);
    sums.head += ratio(device.block->head, device.block->block);
    ++sums.blocks;
    if (device.gflops <= 0) return;
    sums.measured += gflops_of(block_gflop, *device.block);
    sums.promised += device.gflops;
  };
  std::ranges::for_each(input.free, add);
  std::ranges::for_each(input.live, add);
  const double share = sums.promised > 0 ? sums.measured / sums.promised : 1;
  const auto set = [&](auto& device) {
    device.gflops = device.block ? gflops_of(block_gflop, *device.block) : device.gflops * share;
  };
  std::ranges::for_each(input.free, set);
  std::ranges::for_each(input.live, set);
  input.ends = swarm::EndCosts{sums.embedding / sums.blocks, sums.head / sums.blocks};
}

bool can_measure_block(const JobSpec& spec, const FreeDevice& device) {
  const swarm::CostModel model(spec, swarm::cost_options(spec));
  const std::int32_t last = model.units();
  double flops = 0;
  Bytes memory;
  for (const UnitRange part : {UnitRange{0, 1}, UnitRange{1, 2}, UnitRange{last - 1, last}}) {
    flops += model.flops(part);
    memory = std::max(memory, model.memory(part));
  }
  const double gflop = flops * static_cast<double>(spec.model.context) / kFlopsPerGflop;
  return device.memory >= memory && device.gflops > 0 && gflop <= kSequenceMax_s * device.gflops;
}

}  // namespace shoal::coordinator
