// See group_member.h.
#include "trainer/model/group_member.h"

#include <iostream>
#include <string>
#include <vector>

#include "proto/job_spec_text.h"
#include "trainer/model/learner.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

constexpr Duration kLimit = seconds(60);        // for one message
constexpr Duration kPatience = seconds(86400);  // for the leader's next step
constexpr std::uint64_t kJobMax = 1 << 20;      // bytes

Error error_of(const Failure& failure) { return {Code::kInternal, failure.detail, "", ""}; }

class Member {
 public:
  Member(GroupSocket& leader, const DeviceChoice& device, const data::DataRoots& roots,
         data::ReadStored read, swarm::DeviceGroup* group)
      : leader_(leader), device_(device), roots_(roots), read_(std::move(read)), group_(group) {}

  Status load() {
    const auto header = leader_.receive(kLimit);
    if (!header) return header.error();
    if (header->kind != GroupMessageKind::kLoad || header->size > kJobMax) return nonsense();
    std::string job(header->size, '\0');
    const Status got = leader_.receive(std::as_writable_bytes(std::span(job)), kLimit);
    if (!got) return got;
    const auto read = proto::read_kept_spec(job);
    if (read.problems) return Error{Code::kInternal, read.problems->summary, "", ""};
    auto data = Dataset::open(read.spec, roots_, read_);
    if (!data) return data.error();
    const JobSpec spec = with_derived_fields(read.spec);
    if (auto failure = StageModel::create(spec, whole_model(spec.model), device_, model_)) {
      return error_of(*failure);
    }
    learner_ = std::make_unique<Learner>(*model_, std::move(*data));
    values_.resize(static_cast<std::size_t>(model_->value_count()));
    GroupHeader joined{GroupMessageKind::kJoined};
    if (group_ != nullptr) joined.library = group_->version();
    return leader_.send(joined, {}, kLimit);
  }

  Status obey() {
    const auto header = leader_.receive(kPatience);
    if (!header) return header.error();
    switch (header->kind) {
      case GroupMessageKind::kState:
        return take_state(*header);
      case GroupMessageKind::kGroup:
        return form_group(*header);
      case GroupMessageKind::kCompute:
        return compute(*header);
      case GroupMessageKind::kAdd:
        return add(*header);
      case GroupMessageKind::kSum:
        return take_step(*header);
      default:
        return nonsense();
    }
  }

 private:
  static Status nonsense() { return Error{Code::kInternal, "an unexpected message", "", ""}; }

  Status receive(std::vector<float>& values) {
    return leader_.receive(std::as_writable_bytes(std::span(values)), kLimit);
  }

  Status take_state(const GroupHeader& header) {
    if (Status got = receive(values_); !got) return got;
    if (!model_->keeps_gradient()) {
      std::vector<float> m(values_.size());
      std::vector<float> v(static_cast<std::size_t>(model_->second_moment_count()));
      if (Status got = receive(m); !got) return got;
      if (Status got = receive(v); !got) return got;
      model_->write_adam(m, v, header.step);
    }
    model_->write_parameters(values_);
    return {};
  }

  Status form_group(const GroupHeader& header) {
    swarm::CommunicatorId id;
    if (group_ == nullptr || header.size != id.size()) return nonsense();
    if (Status got = leader_.receive(id, kLimit); !got) return got;
    const swarm::GroupView view{header.generation, static_cast<int>(header.first),
                                static_cast<int>(header.count)};
    return answer(GroupMessageKind::kGrouped, header,
                  group_->form(view, id, [this] { return leader_.waiting(); }));
  }

  // The leader drops answers to a step or group that is void.
  Status answer(GroupMessageKind kind, const GroupHeader& header, const Status& how) {
    if (!how) std::cerr << "shoal-trainer: WARNING: " << to_string(how.error()) << std::endl;
    GroupHeader answer{kind, header.generation, header.step};
    answer.good = how.ok() ? 1 : 0;
    return leader_.send(answer, {}, kLimit);
  }

  bool on_devices(const GroupHeader& header) const {
    return group_ != nullptr && group_->ready(header.generation);
  }

  Status compute(const GroupHeader& header) {
    if (group_ != nullptr && !on_devices(header)) group_->leave();
    GroupHeader answer{GroupMessageKind::kGradient, header.generation, header.step};
    if (auto failure = learner_->compute_share({header.first, header.count}, answer.loss)) {
      return error_of(*failure);
    }
    if (on_devices(header)) return leader_.send(answer, {}, kLimit);
    model_->read_step_gradient(values_);
    return leader_.send(answer, {std::as_bytes(std::span(values_))}, kLimit);
  }

  Status add(const GroupHeader& header) {
    if (!on_devices(header)) return nonsense();
    const std::span<float> gradient = model_->step_gradient_in_place();
    return answer(
        GroupMessageKind::kAdded, header,
        group_->add(gradient.data(), gradient.size(), [this] { return leader_.waiting(); }));
  }

  Status take_step(const GroupHeader& header) {
    if (!on_devices(header)) {
      if (header.size != values_.size() * sizeof(float)) return nonsense();
      if (Status got = receive(values_); !got) return got;
      model_->write_step_gradient(values_);
    }
    StepResult result;
    result.loss = header.loss;
    if (auto failure = learner_->take_step(Steps(header.step), result)) return error_of(*failure);
    return {};
  }

  GroupSocket& leader_;
  const DeviceChoice device_;
  const data::DataRoots& roots_;
  const data::ReadStored read_;
  swarm::DeviceGroup* const group_;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<Learner> learner_;
  std::vector<float> values_;
};

}  // namespace

Status run_group_member(GroupSocket& leader, const DeviceChoice& device,
                        const data::DataRoots& roots, swarm::DeviceGroup* group,
                        data::ReadStored read) {
  Member member(leader, device, roots, std::move(read), group);
  Status status = member.load();
  while (status) status = member.obey();
  return status;
}

}  // namespace shoal::trainer
