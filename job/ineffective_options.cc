#include "job/ineffective_options.h"

#include "job/field_checker.h"
#include "job/sync_questions.h"

namespace shoal {
namespace {

constexpr const char* kOfAnAverage[] = {
    "/sync/balance", "/sync/topology", "/sync/codec",    "/sync/feedback",      "/sync/aggregator",
    "/sync/clip",    "/sync/audit",    "/sync/outer/lr", "/sync/outer/momentum"};

constexpr const char* kOfAPipeline[] = {"/swarm/activations", "/swarm/recompute",
                                        "/swarm/schedule"};

void no_effect(FieldChecker& found, const char* pointer, const std::string& with) {
  found.refuse(pointer, "has no effect with " + with);
}

void find_in_sync(const JobOptions& options, FieldChecker& found) {
  const SyncOptions& sync = options.sync;
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
  if (sync_questions::makes_no_audits(options) && !sync_questions::is_sparse(options)) {
    no_effect(
        found, "/sync/audit",
        "this [sync], where no second member can make the average of a part; leave it out, or "
        "choose 'diloco' or 'local_sgd' with a butterfly, a dense codec and "
        "sync.outer_state = 'replicated'");
  }
}

}  // namespace

std::vector<FieldError> ineffective_options(const JobOptions& options) {
  FieldChecker found;
  if (options.train.schedule == Schedule::kConstant) {
    no_effect(found, "/train/min_lr",
              "train.schedule = 'constant', which stays at train.lr; leave it out, or set "
              "train.schedule = 'cosine'");
  }
  find_in_sync(options, found);
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
