// What a user asks for, as a job file says it: the tables of a job specification with a flat
// [sync], their defaults, and the rules that the values have to keep. The texts (TOML, JSON) are
// read in proto/job_spec_text.h; what keeps the rules becomes a JobSpec.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "job/job_spec.h"

namespace shoal {

constexpr std::int64_t kMaxReplicas = 10'000;  // per stage

struct JobOptions {
  std::string name;
  ModelSpec model;
  DataSpec data;
  TrainSpec train;
  SyncOptions sync;
  SwarmSpec swarm;
  CheckpointSpec checkpoint;
  EvalSpec eval;
  TrainerSpec trainer;
  bool operator==(const JobOptions&) const = default;
};
constexpr auto fields_of(Of<JobOptions>) {
  using T = JobOptions;
  return fields(field<&T::name>("name"), field<&T::model>("model"), field<&T::data>("data"),
                field<&T::train>("train"), field<&T::sync>("sync"), field<&T::swarm>("swarm"),
                field<&T::checkpoint>("checkpoint"), field<&T::eval>("eval"),
                field<&T::trainer>("trainer"));
}
static_assert(lists_every_field<JobOptions>());

// The options of a user who says nothing but the algorithm: local_sgd has an outer step that only
// averages; ddp has rounds of one step, exact averages, and evaluations and checkpoints as many
// inner steps apart as diloco's.
JobOptions default_options(SyncAlgorithm algorithm);
JobSpec default_spec(SyncAlgorithm algorithm);

// Every broken rule, in the order of the fields; empty when the options are good.
std::vector<FieldError> validate(const JobOptions& options);

// `options` are valid. An option without effect (ineffective_options.h) is not in a spec, so
// options_of() has its default.
JobSpec spec_of(const JobOptions& options);
JobOptions options_of(const JobSpec& spec);
inline JobOptions digested_as(const JobSpec& spec) { return options_of(spec); }

}  // namespace shoal
