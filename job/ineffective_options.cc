#include "job/ineffective_options.h"

#include "job/field_checker.h"
#include "job/sync_questions.h"

namespace shoal {
namespace {

constexpr const char* kOfAnAverage[] = {"/sync/balance",  "/sync/topology",   "/sync/codec",
                                        "/sync/feedback", "/sync/aggregator", "/sync/clip",
                                        "/sync/audit"};

constexpr const char* kOfAPipeline[] = {"/swarm/activations", "/swarm/schedule",
                                        "/swarm/copies_min", "/swarm/recut"};

constexpr const char* kOfRope[] = {
    "/model/rope/theta",           "/model/rope/scaling",          "/model/rope/factor",
    "/model/rope/low_freq_factor", "/model/rope/high_freq_factor", "/model/rope/original_context"};
constexpr const char* kOfLlama3[] = {"/model/rope/low_freq_factor", "/model/rope/high_freq_factor",
                                     "/model/rope/original_context"};

void no_effect(FieldChecker& found, const char* pointer, const std::string& with) {
  found.refuse(pointer, "has no effect with " + with);
}

// Keys of [sync.outer], as far as `has_effect` does not hold for the key.
template <typename HasEffect>
void no_effect_of_outer(FieldChecker& found, const OuterSpec& outer, const HasEffect& has_effect,
                        const std::string& with) {
  for_each_field(outer, [&](const FieldInfo& field, const auto&) {
    const std::string pointer = "/sync/outer/" + std::string(field.name);
    if (!has_effect(field.name)) no_effect(found, pointer.c_str(), with);
  });
}

void find_in_sync(const JobSpec& options, FieldChecker& found) {
  const SyncSpec& sync = options.sync;
  if (sync.algorithm == SyncAlgorithm::kNone) {
    const std::string with =
        "sync.algorithm = 'none', where nothing is averaged; leave it out, or choose another "
        "sync.algorithm";
    for (const char* pointer : kOfAnAverage) no_effect(found, pointer, with);
    no_effect_of_outer(
        found, sync.outer, [](std::string_view) { return false; }, with);
    return;
  }
  if (sync.every_s > 0) {
    no_effect(found, "/sync/balance",
              "a time in sync.every, in which every replica takes as many inner steps as it can; "
              "leave it out, or set sync.every to a number of inner steps");
  }
  const auto has_effect = [&](std::string_view key) {
    return key == "lr" || key == "method" || sync_questions::reads_outer(sync.outer, key);
  };
  no_effect_of_outer(found, sync.outer, has_effect,
                     "sync.outer.method = " + quoted(to_string(sync.outer.method)) +
                         "; leave it out, or choose a method that reads it (docs/job_file.md)");
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

void find_in_rope(const ModelSpec& model, FieldChecker& found) {
  if (model.family == ModelFamily::kGpt2) {
    for (const char* pointer : kOfRope) {
      no_effect(found, pointer,
                "model.family = 'gpt2', which learns its positions; leave it out, or choose "
                "'llama'");
    }
    return;
  }
  if (model.rope.scaling == RopeScaling::kNone) {
    no_effect(found, "/model/rope/factor",
              "model.rope.scaling = 'none'; leave it out, or set model.rope.scaling to 'linear' or "
              "'llama3'");
  }
  if (model.rope.scaling == RopeScaling::kLlama3) return;
  for (const char* pointer : kOfLlama3) {
    no_effect(found, pointer,
              "model.rope.scaling = " + quoted(to_string(model.rope.scaling)) +
                  "; leave it out, or set model.rope.scaling = 'llama3'");
  }
}

}  // namespace

std::vector<FieldError> ineffective_options(const JobSpec& options) {
  FieldChecker found;
  find_in_rope(options.model, found);
  if (options.train.schedule == Schedule::kConstant) {
    no_effect(found, "/train/min_lr",
              "train.schedule = 'constant', which stays at train.lr; leave it out, or set "
              "train.schedule = 'cosine'");
  }
  find_in_sync(options, found);
  if (options.swarm.stages == 1) {
    for (const char* pointer : kOfAPipeline) {
      no_effect(
          found, pointer,
          "swarm.stages = 1, where nothing crosses a stage boundary and no replica changes its "
          "stage; leave it out, or set swarm.stages above 1");
    }
    if (options.trainer.kind == TrainerKind::kPython) {
      no_effect(
          found, "/swarm/recompute",
          "trainer.kind = 'python' and swarm.stages = 1, where the program computes the whole "
          "model; leave it out, and use torch.utils.checkpoint in the program");
    }
  }
  return found.take();
}

}  // namespace shoal
