// See begin_from.h.
#include "cli/commands/begin_from.h"

#include "cli/format.h"

namespace shoal::cli {
namespace {

constexpr const char* kOrigin = "--from";
constexpr double kUsualTheta = 10'000;

bool is_pipeline(const Json& file) {
  const Json* stages = at_path(file, "swarm/stages");
  return stages != nullptr && *stages != 1;
}

// A word of TOML; JSON writes numbers, words and truth the same.
std::string assignment(const std::string& key, const Json& value) {
  return "model." + key + "=" + value.dump();
}

// Only what has an effect: the rest would be refused.
void take_rope(const Json& rope, const Json& written, std::vector<std::string>& taken) {
  const std::string scaling = text_at(rope, "scaling", "none");
  for (const auto& [key, value] : rope.items()) {
    const bool of_scaling = key == "scaling" || key == "factor";
    const bool usual = key == "theta" && value == kUsualTheta;
    const bool needed = key == "theta" ? !usual
                        : of_scaling   ? scaling != "none"
                                       : scaling == "llama3";
    if (needed && !written.contains(key)) taken.push_back(assignment("rope." + key, value));
  }
}

}  // namespace

std::vector<std::string> fields_to_take(const Json& model, const Json& file) {
  const Json* table = at_path(file, "model");
  const Json written = table != nullptr && table->is_object() ? *table : Json::object();
  std::vector<std::string> taken;
  for (const auto& [key, value] : model.items()) {
    if (key == "init" || value.is_null()) continue;
    if (key == "rope") {
      const bool turned = text_at(model, "family") == "llama";
      if (turned) take_rope(value, written.value("rope", Json::object()), taken);
      continue;
    }
    const bool tied = key == "tie_embeddings" && value == true && is_pipeline(file);
    if (!tied && !written.contains(key)) taken.push_back(assignment(key, value));
  }
  return taken;
}

Status begin_from(const Api& api, const std::string& from, JobFile& file) {
  const auto id = find_checkpoint(api, from);
  if (!id) return id.error();
  const auto checkpoint = api.get("/checkpoints/" + url_escape(*id));
  if (!checkpoint) return checkpoint.error();
  const auto job = api.get("/jobs/" + url_escape(text_at(*checkpoint, "job")));
  if (!job) return job.error();
  const Json* model = at_path(*job, "spec/model");
  if (model == nullptr || !model->is_object()) {
    return Error{Code::kIncompatible, "the coordinator does not tell the model of " + *id, kOrigin,
                 "upgrade it, or set model.init and the fields of [model] yourself"};
  }
  std::vector<std::string> sets = fields_to_take(*model, file.spec());
  sets.push_back(assignment("init", *id));
  for (const std::string& set : sets) {
    if (auto done = file.apply_set(set, kOrigin); !done) return done;
  }
  return {};
}

}  // namespace shoal::cli
