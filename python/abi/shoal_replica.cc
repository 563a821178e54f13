// The C interface (shoal_replica.h) over the library of every trainer.
#include "python/abi/shoal_replica.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent_channel/data_client.h"
#include "agent_channel/environment.h"
#include "base/prng.h"
#include "base/wire_text.h"
#include "data/stored_tokens.h"
#include "job/data_rules.h"
#include "proto/job_spec_text.h"
#include "python/abi/orders.h"
#include "python/abi/program_compute.h"
#include "replica/checkpoint/object_bundle.h"
#include "replica/checkpoint/part_writer.h"
#include "replica/runtime/serve.h"
#include "transfer/file_writer.h"

using namespace shoal;

namespace {

thread_local std::string last_error;
thread_local std::int32_t last_failure = SHOAL_FAILED;

int refuse(std::string why) {
  last_failure = SHOAL_FAILED;
  last_error = std::move(why);
  return -1;
}

int result_of(const Status& status) { return status ? 0 : refuse(to_string(status.error())); }

// As a trainer tells bad data from data that is not there.
int refuse_data(const Error& error) {
  refuse(to_string(error));
  last_failure = error.code == Code::kValidation ? SHOAL_DATA_INVALID : SHOAL_DATA_MISSING;
  return -1;
}

int result_of_read(const Status& status) { return status ? 0 : refuse_data(status.error()); }

// Its texts live as long as the entry.
shoal_file as_file(const FileEntry& entry) {
  return {entry.path.c_str(), entry.role.c_str(), entry.size.count(), entry.sha256.c_str()};
}

int give(Result<FileEntry> written, shoal_file* out) {
  thread_local FileEntry entry;
  if (!written) return refuse(to_string(written.error()));
  entry = std::move(*written);
  *out = as_file(entry);
  return 0;
}

replica::Failure failure_of(std::int32_t kind, const char* detail) {
  constexpr ReplicaFailure kKinds[] = {
      ReplicaFailure::kInternal, ReplicaFailure::kOutOfMemory, ReplicaFailure::kDataInvalid,
      ReplicaFailure::kDigestMismatch, ReplicaFailure::kDataMissing};
  const bool known = kind >= 0 && static_cast<std::size_t>(kind) < std::size(kKinds);
  return {known ? kKinds[kind] : ReplicaFailure::kInternal, detail};
}

}  // namespace

struct shoal_replica {
  shoal_replica(const shoal_process& process, int device)
      : orders(seconds_f(process.order_limit_s)), host(orders) {
    about.device.index = device;
    about.device.name = process.device_name;
    about.device.memory = Bytes(process.memory_bytes);
    about.device.gflops = process.gflops;
    about.libraries = process.libraries;
    thread = std::jthread([this](const std::stop_token& stop) { attend(stop); });
  }

  void attend(const std::stop_token& stop) {
    const auto measure = [this](TrainerReady& ready) {
      ready.device = about.device;
      ready.libraries = about.libraries;
      return replica::MaybeFailure();
    };
    const auto end = replica::attend({"shoal", host, measure, stop});
    orders.end(end.ok() ? "" : to_string(end.error()));
  }

  python::Orders orders;
  python::ProgramHost host;
  TrainerReady about;
  std::vector<LoggedValue> logged;  // of the step that the program takes
  std::jthread thread;              // last: it uses the others
};

struct shoal_data {
  std::int64_t context;
  std::unique_ptr<data::StoredTokens> tokens;

  std::span<std::int64_t> room(std::int64_t* out) const {
    return {out, static_cast<std::size_t>(context + 1)};
  }
};

int32_t shoal_abi_version(void) { return SHOAL_ABI_VERSION; }

const char* shoal_last_error(void) { return last_error.c_str(); }

int shoal_join(const shoal_process* process, shoal_replica** out) {
  if (!(process->order_limit_s > 0 && process->order_limit_s <= 86'400)) {
    return refuse("order_limit_s must be above 0 and at most 86400 seconds");
  }
  const auto device = agent_channel::environment_number("SHOAL_TRAINER_DEVICE", 0, 0, 4095);
  if (!device) return refuse(to_string(device.error()));
  *out = new shoal_replica(*process, *device);
  return 0;
}

int shoal_next(shoal_replica* replica, int64_t wait_ms, shoal_order* out) {
  const auto order = replica->orders.next(milliseconds(wait_ms));
  if (!order) return refuse(to_string(order.error()));
  if (*order) *out = **order;
  return *order ? 1 : 0;
}

int shoal_answer_model(shoal_replica* replica, const shoal_tensor* tensors, int64_t tensor_count,
                       const uint64_t* data) {
  python::Answer answer;
  for (const shoal_tensor& tensor : std::span(tensors, static_cast<std::size_t>(tensor_count))) {
    const std::span shape(tensor.shape, static_cast<std::size_t>(tensor.dimensions));
    answer.tensors.push_back({tensor.name, {shape.begin(), shape.end()}, tensor.type});
  }
  answer.data = {data[0], data[1]};
  return result_of(replica->orders.answer(SHOAL_MODEL, std::move(answer)));
}

int shoal_answer_step(shoal_replica* replica, double loss, double lr) {
  python::Answer answer{.loss = loss, .lr = lr, .logged = std::exchange(replica->logged, {})};
  return result_of(replica->orders.answer(SHOAL_TRAIN, std::move(answer)));
}

int shoal_log(shoal_replica* replica, const char* name, double value) {
  if (!is_logged_name(name)) {
    return refuse("the name \"" + shown_text(name, false) + "\" of a logged value " +
                  kLoggedNameRule);
  }
  if (replica->logged.size() == kLoggedValuesMax) {
    return refuse("more than " + std::to_string(kLoggedValuesMax) +
                  " values were logged at one inner step (log fewer names)");
  }
  replica->logged.push_back({name, {}, value});
  return 0;
}

int shoal_answer_loss(shoal_replica* replica, double mean_loss) {
  return result_of(replica->orders.answer_loss(mean_loss));
}

int shoal_answer_stage_step(shoal_replica* replica, double gradient_norm, double lr) {
  python::Answer answer{
      .lr = lr, .gradient_norm = gradient_norm, .logged = std::exchange(replica->logged, {})};
  return result_of(replica->orders.answer(SHOAL_STEP, std::move(answer)));
}

int shoal_answer_files(shoal_replica* replica, const shoal_file* files, int64_t file_count) {
  python::Answer answer;
  for (const shoal_file& file : std::span(files, static_cast<std::size_t>(file_count))) {
    answer.files.push_back({file.name, Bytes(file.size), file.sha256, file.role});
  }
  return result_of(replica->orders.answer(SHOAL_WRITE_CHECKPOINT, std::move(answer)));
}

int shoal_write_object(const shoal_object* object, shoal_file* out) {
  std::vector<replica::TensorToWrite> tensors;
  for (const shoal_object_tensor& one :
       std::span(object->tensors, static_cast<std::size_t>(object->tensor_count))) {
    const std::span shape(one.shape, static_cast<std::size_t>(one.dimensions));
    tensors.push_back(
        {one.name,
         {shape.begin(), shape.end()},
         {},
         one.type,
         {static_cast<const std::byte*>(one.values), static_cast<std::size_t>(one.bytes)}});
  }
  return give(replica::write_object({object->folder, static_cast<StageIndex>(object->stage),
                                     static_cast<std::size_t>(object->stages), object->role,
                                     object->document == nullptr ? "" : object->document,
                                     std::move(tensors)}),
              out);
}

int shoal_write_description(const char* folder, const char* name, const char* text,
                            shoal_file* out) {
  if (!replica::is_object_name(name)) return refuse("a description has the name of a file");
  auto written = write_whole_file(std::filesystem::path(folder) / name, text);
  if (written) written->role = replica::kRoleDescription;
  return give(std::move(written), out);
}

int shoal_write_file(const char* folder, int64_t stage, int64_t stages, const char* name,
                     const char* path, shoal_file* out) {
  return give(replica::write_program_file(folder, static_cast<StageIndex>(stage),
                                          static_cast<std::size_t>(stages), name, path),
              out);
}

int64_t shoal_list_files(const char* folder, int64_t stage, const shoal_file** out) {
  thread_local std::vector<FileEntry> entries;
  thread_local std::vector<shoal_file> files;
  auto listed = replica::list_objects(folder, static_cast<StageIndex>(stage));
  if (!listed) return refuse(to_string(listed.error()));
  entries = std::move(*listed);
  files.clear();
  for (const FileEntry& entry : entries) files.push_back(as_file(entry));
  *out = files.data();
  return std::ssize(files);
}

int shoal_answer(shoal_replica* replica) { return result_of(replica->orders.answer(0, {})); }

int shoal_answer_failed(shoal_replica* replica, int32_t failure, const char* detail) {
  replica->orders.fail(failure_of(failure, detail), false);
  return 0;
}

void shoal_leave(shoal_replica* replica, const char* failure) {
  const char* why = failure != nullptr ? failure : "the program has ended its work";
  replica->orders.fail({ReplicaFailure::kInternal, why}, true);
  replica->thread.request_stop();
  delete replica;  // waits for its thread
}

int shoal_open_data(const char* spec, shoal_data** out, shoal_data_shape* shape) {
  const auto read = proto::read_kept_spec(spec);
  if (read.problems) return refuse("the job cannot be read: " + read.problems->summary);
  if (datasets_of(read.spec.data).empty()) {
    return refuse_data({Code::kValidation, "the job reads a file of each host, no dataset",
                        "data.dataset", "set it, or read replica.data_path"});
  }
  const auto line = agent_channel::control_options("shoal");
  if (!line) return refuse_data(line.error());
  auto tokens = data::StoredTokens::open(read.spec, agent_channel::read_over(*line));
  if (!tokens) return refuse_data(tokens.error());
  const Digest digest = (*tokens)->digest();
  *shape = {read.spec.model.context,
            (*tokens)->sequences(),
            (*tokens)->validation_sequences(data::StoredTokens::kAllHeldOut),
            {digest.high, digest.low}};
  *out = new shoal_data{read.spec.model.context, std::move(*tokens)};
  return 0;
}

int shoal_will_read(const shoal_data* data, int64_t first, int64_t count) {
  if (first < 0 || count < 0) return refuse("sequences are numbered from 0 on");
  data->tokens->will_read({{first, count}});
  return 0;
}

int shoal_read_sequence(const shoal_data* data, int64_t number, int64_t* tokens) {
  if (number < 0) return refuse("sequences are numbered from 0 on");
  return result_of_read(data->tokens->training_sequence(number, data->room(tokens)));
}

int shoal_read_held_out(const shoal_data* data, int64_t index, int64_t count, int64_t* tokens) {
  if (index < 0 || index >= count) return refuse("there is no such held-out sequence");
  return result_of_read(data->tokens->validation_sequence(index, count, data->room(tokens)));
}

void shoal_close_data(shoal_data* data) { delete data; }

int32_t shoal_last_failure(void) { return last_failure; }

int64_t shoal_permuted(int64_t size, uint64_t seed, int64_t index) {
  return static_cast<int64_t>(
      Permutation(static_cast<std::uint64_t>(size), seed)(static_cast<std::uint64_t>(index)));
}

void shoal_digest(const void* bytes, int64_t count, uint64_t* digest) {
  const Digest before{digest[0], digest[1]};
  const std::span all(static_cast<const std::byte*>(bytes), static_cast<std::size_t>(count));
  const Digest after = Digester().add(before).add(all).finish();
  digest[0] = after.high;
  digest[1] = after.low;
}
