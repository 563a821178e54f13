// What people do to checkpoints: pin, unpin, remove. The core decides, and says what a removal
// would break; the answer is the checkpoint as it then is.
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/url.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest::api {
namespace {

std::string state_text(const CheckpointRecord& checkpoint) {
  return std::string(to_string(checkpoint.state)) + (checkpoint.pinned ? ", pinned" : "");
}

Response show(Context& context, const Request& request, const CheckpointRecord& before) {
  const auto after = find_checkpoint(context, request);
  if (!after.ok()) return problem_response(after.error(), request);
  const auto job = context.reader->job(after->key.job);
  if (!job.ok()) return problem_response(job.error(), request);
  Response response = json_response(checkpoint_json(after.value(), job.value() ? &**job : nullptr));
  response.audited.object = to_string(before.id);
  response.audited.before = state_text(before);
  response.audited.after = state_text(after.value());
  return response;
}

void command(Context& context, const Request& request, CheckpointVerb verb, bool force,
             Replier reply) {
  const auto checkpoint = find_checkpoint(context, request);
  if (!checkpoint.ok()) return reply(problem_response(checkpoint.error(), request));
  auto done = [on_worker = context.on_worker, request, before = checkpoint.value(),
               reply](Cluster::Answer answer) {
    on_worker([=](Context& worker) {
      if (!answer.result.ok()) return reply(command_refused(request, answer, Problem::kConflict));
      reply(show(worker, request, before));
    });
  };
  context.cluster.command_checkpoint(
      {.request = {}, .checkpoint = checkpoint.value(), .verb = verb, .force = force},
      std::move(done));
}

}  // namespace

void pin_checkpoint(Context& context, const Request& request, Replier reply) {
  command(context, request, CheckpointVerb::kPin, false, std::move(reply));
}

void unpin_checkpoint(Context& context, const Request& request, Replier reply) {
  command(context, request, CheckpointVerb::kUnpin, false, std::move(reply));
}

void remove_checkpoint(Context& context, const Request& request, Replier reply) {
  const auto force = read_flag(request, "force");
  if (!force.ok()) return reply(problem_response(force.error(), request));
  command(context, request, CheckpointVerb::kRemove, force.value(), std::move(reply));
}

}  // namespace shoal::coordinator::rest::api
