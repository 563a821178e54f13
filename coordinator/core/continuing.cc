#include "coordinator/core/continuing.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/core/checkpoints/checkpoints.h"
#include "coordinator/core/releases.h"
#include "job/model_match.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kField = "/train/continue_from";

// Compares the job with that of the checkpoint, and says what has to be as it is there.
class Comparison {
 public:
  Comparison(const JobSpec& spec, const JobSpec& from, std::string checkpoint)
      : spec_(spec), from_(from), checkpoint_(std::move(checkpoint)) {}

  std::vector<FieldError> refused() {
    compare_models();
    same("/trainer/kind", to_string(from_.trainer.kind), spec_.trainer.kind == from_.trainer.kind);
    same("/data", "the data of its job", spec_.data == from_.data);
    same("/train/seed", std::to_string(from_.train.seed), spec_.train.seed == from_.train.seed);
    same("/train/optimizer", to_string(from_.train.optimizer),
         spec_.train.optimizer == from_.train.optimizer);
    const SyncSpec &ours = spec_.sync, &theirs = from_.sync;
    same("/sync/algorithm", to_string(theirs.algorithm), ours.algorithm == theirs.algorithm);
    if (!fields_.empty()) return std::move(fields_);
    same("/sync/fragments", std::to_string(theirs.fragments), ours.fragments == theirs.fragments);
    same("/sync/outer/method", to_string(theirs.outer.method),
         std::ranges::equal(outer_vectors(ours), outer_vectors(theirs)));
    same("/sync/outer_state", to_string(theirs.outer_state),
         ours.outer_state == theirs.outer_state);
    return std::move(fields_);
  }

 private:
  void same(const char* pointer, const std::string& value, bool is_same) {
    if (is_same) return;
    fields_.push_back({pointer, "must be as in the job of " + checkpoint_ + " (" + value +
                                    "), which train.continue_from continues; or leave that out "
                                    "and begin with its weights alone: model.init = '" +
                                    checkpoint_ + "'"});
  }
  void compare_models() {
    if (spec_.model == from_.model) return;
    const std::string found = text_of(differences(spec_.model, from_.model));
    same("/model", found.empty() ? "model.init or model.context differs" : found, false);
  }

  const JobSpec &spec_, &from_;
  const std::string checkpoint_;
  std::vector<FieldError> fields_;
};

// The cut of its job, which may have another one by now if the checkpoint says its own.
bool is_cut_known(const JobRecord& from, const CheckpointRecord& checkpoint) {
  return from.stages.size() == checkpoint.parts.size() || !cut_of(from.spec, checkpoint).empty();
}

std::vector<FieldError> refused_place(const JobSpec& spec, const CheckpointRecord& checkpoint) {
  const auto cut = static_cast<std::int64_t>(checkpoint.parts.size());
  if (spec.swarm.stages != 0 && spec.swarm.stages != cut) {
    return {{"/swarm/stages", "must be " + std::to_string(cut) + ", as " +
                                  to_string(checkpoint.id) + " is cut, or 'auto', got " +
                                  std::to_string(spec.swarm.stages)}};
  }
  if (spec.train.steps > checkpoint.step) return {};
  return {{"/train/steps", "must be above " + std::to_string(checkpoint.step.count()) +
                               ", the inner steps that " + to_string(checkpoint.id) + " has, got " +
                               std::to_string(spec.train.steps.count())}};
}

}  // namespace

std::vector<FieldError> refused_continuation(const State& state, const JobSpec& spec) {
  JobRecord asks;
  asks.spec.train.continue_from = spec.train.continue_from;
  const CheckpointRecord* checkpoint = continued_from(state, asks);
  SHOAL_CHECK(checkpoint != nullptr, "the checkpoint of a job that passed refused_checkpoints()");
  const JobRecord* from = state.jobs.find(checkpoint->key.job);
  if (from == nullptr || !is_cut_known(*from, *checkpoint)) {
    return {{kField, "the job of " + to_string(checkpoint->id) +
                         " is not known any more; begin with its weights alone: model.init = '" +
                         to_string(checkpoint->id) + "'"}};
  }
  auto fields =
      Comparison(spec, with_derived_fields(from->spec), to_string(checkpoint->id)).refused();
  if (fields.empty()) fields = refused_place(spec, *checkpoint);
  return fields;
}

std::string stand_at_continued(const State& state, JobRecord& job) {
  const CheckpointRecord* checkpoint = continued_from(state, job);
  SHOAL_CHECK(checkpoint != nullptr, "the checkpoint of a job that was not refused");
  const JobRecord& from = state.jobs.at(checkpoint->key.job);
  job.stages = from.stages;
  job.data = from.data;
  job.lease_unit = from.lease_unit;
  stand_at(job, checkpoint);
  job.begun_step = job.committed_step;
  job.begun_tokens = job.committed_tokens;
  return "; it continues " + to_string(checkpoint->id) + " of job " + from.spec.name +
         " after round " + std::to_string(job.committed_round);
}

std::string lost_beginning(const JobRecord& job) {
  if (job.spec.train.continue_from.empty() || job.committed_round > 0) return {};
  return job.spec.train.continue_from +
         ", which it continues, cannot be loaded, and none of its own is stored; continue another "
         "one: shoal job restart JOB --from ckpt_N";
}

}  // namespace shoal::coordinator
