#include "job/idle_options.h"

#include "job/field_checker.h"

namespace shoal {
namespace {

constexpr const char* kOfAnAverage[] = {"/sync/balance",  "/sync/topology",      "/sync/codec",
                                        "/sync/feedback", "/sync/aggregator",    "/sync/clip",
                                        "/sync/outer/lr", "/sync/outer/momentum"};

constexpr const char* kOfAPipeline[] = {"/swarm/activations", "/swarm/recompute", "/swarm/schedule",
                                        "/swarm/wiring"};

void no_effect(FieldChecker& found, const char* pointer, const std::string& with) {
  found.refuse(pointer, "has no effect with " + with);
}

void find_in_sync(const SyncOptions& sync, FieldChecker& found) {
  if (sync.algorithm == SyncAlgorithm::kNone) {
    for (const char* pointer : kOfAnAverage) {
      no_effect(found, pointer,
                "sync.algorithm = 'none', where nothing is averaged; leave it out, or choose "
                "another sync.algorithm");
    }
    return;
  }
  if (sync.every_s > 0) {
    no_effect(found, "/sync/balance",
              "a time in sync.every, in which every replica takes as many inner steps as it can; "
              "leave it out, or set sync.every to a number of inner steps");
  }
  if (sync.codec != CodecKind::kSparse2) {
    no_effect(found, "/sync/feedback",
              "sync.codec = " + quoted(to_string(sync.codec)) +
                  ", which sends every value; leave it out, or set sync.codec = 'sparse2'");
  }
}

}  // namespace

std::vector<FieldError> idle_options(const JobOptions& options) {
  FieldChecker found;
  if (options.train.schedule == Schedule::kConstant) {
    no_effect(found, "/train/min_lr",
              "train.schedule = 'constant', which stays at train.lr; leave it out, or set "
              "train.schedule = 'cosine'");
  }
  find_in_sync(options.sync, found);
  if (options.swarm.stages == 1) {
    for (const char* pointer : kOfAPipeline) {
      no_effect(found, pointer,
                "swarm.stages = 1, where nothing crosses a stage boundary; leave it out, or set "
                "swarm.stages above 1");
    }
  }
  return found.take();
}

}  // namespace shoal
