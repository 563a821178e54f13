// Uploaded files and datasets. The rules are in files/file_store.h; here is who may do what:
// anybody who submits jobs may upload and name datasets, and remove what is their own; the content
// is read by its owners and by admins. What jobs that have not ended need stays.
#include "coordinator/service/files/file_store.h"
#include "coordinator/service/http/access.h"
#include "coordinator/service/http/answers/answer_json.h"
#include "coordinator/service/http/answers/file_answers.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/routes/api.h"
#include "coordinator/service/http/routes/body.h"
#include "coordinator/service/http/server.h"
#include "job/data_rules.h"

namespace shoal::coordinator::rest::api {
namespace {

Result<FileStore*> store_of(Context& context) {
  if (context.options.files != nullptr) return context.options.files;
  return Error{Code::kUnavailable, "this server keeps no files", "", ""};
}

// The sender of a file is not told what uses it, because that takes a look at all jobs.
Json file_json(const StoredFile& file, const std::map<std::string, std::string>& uses = {}) {
  const FileRecord& record = file.record;
  const auto use = uses.find(record.sha256);
  return answer_json(StoredFileAnswer{.sha256 = record.sha256,
                                      .size = record.size,
                                      .received = file.received,
                                      .complete = record.complete,
                                      .owner = record.owner,
                                      .created_at = record.created,
                                      .used_by = use == uses.end() ? "" : use->second});
}

Error no_file(const std::string& sha256) {
  return {Code::kNotFound, "there is no file \"" + sha256 + "\"", "",
          "announce it with POST /api/v1/files, and upload it"};
}

constexpr identity::Action kManage = identity::Action::kManageData;

Result<StoredFile> find_file(FileStore& files, const Request& request) {
  const std::string& sha256 = request.part("sha256");
  auto file = files.find(sha256);
  if (!file) return no_file(sha256);
  return std::move(*file);
}

Result<DatasetRecord> find_dataset(FileStore& files, const Request& request) {
  const std::string& name = request.part("dataset");
  auto dataset = files.dataset(name);
  if (dataset) return std::move(*dataset);
  return Error{Code::kNotFound, "there is no dataset \"" + name + "\"", "",
               "`shoal dataset ls` lists them"};
}

Error not_own(const Request& request, identity::Action action, const std::string& what,
              const std::string& owner) {
  const Principal& who = request.principal;
  return {Code::kPermissionDenied,
          what + " is of " + owner + "; the scope " + identity::to_string(who.scopes) + " of " +
              who.name + " allows " + std::string(to_string(action)) + " for one's own only",
          "", "ask its owner, or an admin for a token with a wider scope"};
}

// May be removed by the person that its row names, not by further owners.
Status check_may_remove(const Request& request, const std::string& what, const std::string& owner) {
  const Principal& who = request.principal;
  if (identity::allowed(who.scopes, kManage, owner == who.name)) return {};
  return not_own(request, kManage, what, owner);
}

// What jobs that have not ended read and run, with the name of one of them.
Result<FileUses> uses_of_jobs(Context& context) {
  std::vector<JobPhase> phases;
  for (const auto& [phase, word] : kEnumerators<JobPhase>) {
    if (!is_terminal(phase)) phases.push_back(phase);
  }
  FileUses uses;
  PageRequest page{.limit = 500};
  for (;;) {
    const auto jobs = context.reader->jobs(page, {.phases = phases});
    if (!jobs.ok()) return jobs.error();
    for (const JobRecord& job : jobs->items) {
      for (const std::string& file : uploads_of(job.spec)) uses.emplace(file, job.spec.name);
    }
    if (!jobs->next) return uses;
    page.after = *jobs->next;
  }
}

Result<Json> dataset_json(FileStore& files, const DatasetRecord& record, const FileUses& uses) {
  const auto manifest = files.manifest(record.manifest);
  if (!manifest.ok()) return manifest.error();
  DatasetAnswer answer{.name = record.name,
                       .manifest = record.manifest,
                       .owner = record.owner,
                       .created_at = record.created,
                       .kind = (*manifest)->tokens,
                       .tokens = data::total_tokens(**manifest),
                       .size = Bytes(data::total_bytes(**manifest)),
                       .shards = static_cast<std::int64_t>((*manifest)->shards.size()),
                       .chunk_bytes = Bytes((*manifest)->chunk_bytes),
                       .tokenizer = (*manifest)->tokenizer};
  for (const data::Shard& shard : (*manifest)->shards) {
    answer.max_token = std::max(answer.max_token, shard.max_token);
  }
  if (const auto job = uses.find(record.manifest); job != uses.end()) {
    answer.jobs.push_back(job->second);
  }
  return answer_json(answer);
}

// A page of a list whose keys are places in it.
template <typename Items, typename MakeJson>
Result<Response> paged(const Request& request, const char* list, const Items& items,
                       const MakeJson& make) {
  const auto page = read_page(request, list, false);
  if (!page.ok()) return page.error();
  const auto size = static_cast<std::int64_t>(items.size());
  const std::int64_t first = std::clamp<std::int64_t>(page->after, 0, size);
  const std::int64_t last = std::min<std::int64_t>(size, first + page->limit);
  Json json = Json::array();
  for (std::int64_t i = first; i < last; ++i) {
    const Result<Json> one = make(items[static_cast<std::size_t>(i)]);
    if (!one.ok()) return one.error();
    json.push_back(*one);
  }
  const auto next = last < size ? std::optional(last) : std::nullopt;
  return json_response(page_json(std::move(json), next, list));
}

}  // namespace

// ---- files

Result<Response> add_file(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  auto body = Body::read(request, {"sha256", "size"});
  if (!body.ok()) return body.error();
  const std::string sha256 = body->text("sha256");
  const Bytes size(body->integer("size"));
  if (!body->status().ok()) return body->status().error();
  auto file = (*files)->begin(sha256, size, object_user(request.principal));
  if (!file.ok()) {
    Error error = file.error();
    if (!error.field.empty() && error.field.front() != '/') error.field = "/" + error.field;
    return error;
  }
  Response response = json_response(file_json(*file), file->record.complete ? 200 : 201);
  response.audited.object = sha256;
  response.audited.after = std::to_string(size.n) + " bytes";
  return response;
}

Result<Response> put_file(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto from = read_integer(request, "from", 0, std::int64_t{1} << 50, 0);
  if (!from.ok()) return from.error();
  const auto file =
      (*files)->write(request.part("sha256"), Bytes(*from), std::as_bytes(std::span(request.body)),
                      object_user(request.principal));
  if (!file.ok()) return file.error();
  return json_response(file_json(*file));
}

Result<Response> get_file(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto file = find_file(**files, request);
  if (!file.ok()) return file.error();
  const auto jobs = uses_of_jobs(context);
  if (!jobs.ok()) return jobs.error();
  return json_response(file_json(*file, (*files)->uses(*jobs)));
}

Result<Response> list_files(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto jobs = uses_of_jobs(context);
  if (!jobs.ok()) return jobs.error();
  const auto uses = (*files)->uses(*jobs);
  return paged(request, "files", (*files)->files(),
               [&](const StoredFile& file) { return Result<Json>(file_json(file, uses)); });
}

Result<Response> get_file_content(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto file = find_file(**files, request);
  if (!file.ok()) return file.error();
  const FileRecord& record = file->record;
  const ObjectUser who = object_user(request.principal);
  if (!record.complete && may_use(who, ObjectKind::kUpload, {&record.owner, 1})) {
    return Error{Code::kConflict, "the file is still being uploaded", "", "upload the rest of it"};
  }
  if (!(*files)->may_read(who, record.sha256)) {
    return not_own(request, identity::Action::kDownloadData, "the file " + record.sha256,
                   record.owner);
  }
  const FileEntry entry{FileStore::kContent, record.size, record.sha256};
  auto part = open_file((*files)->folder_of(record.sha256), entry);
  if (!part.ok()) return part.error();
  return stored_file_response(request, entry, std::move(part).value());
}

Result<Response> remove_file(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto file = find_file(**files, request);
  if (!file.ok()) return file.error();
  const FileRecord& record = file->record;
  if (Status s = check_may_remove(request, "the file " + record.sha256, record.owner); !s.ok()) {
    return s.error();
  }
  const auto uses = uses_of_jobs(context);
  if (!uses.ok()) return uses.error();
  const auto removed = (*files)->remove(record.sha256, *uses);
  if (!removed.ok()) return removed.error();
  Response response = json_response(file_json(*file));
  response.audited.before = std::to_string(record.size.n) + " bytes of " + record.owner;
  return response;
}

void verify_file(Context& context, const Request& request, Replier reply) {
  const auto files = store_of(context);
  const auto file = files.ok() ? find_file(**files, request) : Result<StoredFile>(files.error());
  if (!file.ok()) return reply(problem_response(file.error(), request));
  const bool accepted = context.on_slow_worker(
      [files = *files, file = *file, request, reply](const std::atomic<bool>&) {
        const Status good = files->verify(file.record.sha256);
        if (good.ok()) return reply(json_response(file_json(file)));
        reply(problem_response(good.error(), request));
      });
  if (!accepted) {
    reply(problem_response(Problem::kOverloaded, request, "too many files wait to be verified", {},
                           "try again later"));
  }
}

// ---- datasets

Result<Response> add_dataset(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  auto body = Body::read(request, {"name", "manifest"});
  if (!body.ok()) return body.error();
  const std::string name = body->text("name"), manifest = body->text("manifest");
  if (!body->status().ok()) return body->status().error();
  auto dataset = (*files)->add_dataset(name, manifest, object_user(request.principal));
  if (!dataset.ok()) {
    Error error = dataset.error();
    if (error.field == "name" || error.field == "manifest") error.field = "/" + error.field;
    return error;
  }
  const auto json = dataset_json(**files, *dataset, {});
  if (!json.ok()) return json.error();
  Response response = json_response(*json, 201);
  response.audited.object = name;
  response.audited.after = manifest;
  return response;
}

Result<Response> list_datasets(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto uses = uses_of_jobs(context);
  if (!uses.ok()) return uses.error();
  return paged(request, "datasets", (*files)->datasets(),
               [&](const DatasetRecord& dataset) { return dataset_json(**files, dataset, *uses); });
}

Result<Response> get_dataset(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto dataset = find_dataset(**files, request);
  if (!dataset.ok()) return dataset.error();
  const auto uses = uses_of_jobs(context);
  if (!uses.ok()) return uses.error();
  const auto json = dataset_json(**files, *dataset, *uses);
  if (!json.ok()) return json.error();
  return json_response(*json);
}

Result<Response> list_shards(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto dataset = find_dataset(**files, request);
  if (!dataset.ok()) return dataset.error();
  const auto manifest = (*files)->manifest(dataset->manifest);
  if (!manifest.ok()) return manifest.error();
  return paged(request, "shards", (*manifest)->shards, [](const data::Shard& shard) {
    return Result<Json>(answer_json(ShardAnswer{shard.name, Bytes(shard.bytes), shard.sha256,
                                                shard.chunks, shard.url, shard.max_token}));
  });
}

Result<Response> remove_dataset(Context& context, const Request& request) {
  const auto files = store_of(context);
  if (!files.ok()) return files.error();
  const auto dataset = find_dataset(**files, request);
  if (!dataset.ok()) return dataset.error();
  if (Status s = check_may_remove(request, "dataset " + dataset->name, dataset->owner); !s.ok()) {
    return s.error();
  }
  const auto uses = uses_of_jobs(context);
  if (!uses.ok()) return uses.error();
  const auto json = dataset_json(**files, *dataset, *uses);
  const auto removed = (*files)->remove_dataset(dataset->name, *uses);
  if (!removed.ok()) return removed.error();
  // What it was; of one whose manifest is gone its name.
  Response response = json_response(json.ok() ? *json : Json{{"name", removed->name}});
  response.audited.before = removed->manifest;
  return response;
}

}  // namespace shoal::coordinator::rest::api
