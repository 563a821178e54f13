#include "tests/sim/trainer/agent_line.h"

#include <utility>

namespace shoal::sim {
namespace {

constexpr Duration kOrphanLimit = seconds(120);

}  // namespace

void AgentLine::begin(agent::TrainerId trainer, const TrainerReady& ready,
                      Duration until_attached) {
  trainer_ = trainer;
  ready_ = ready;
  work_ = {};
  attached_ = false;
  process_.after(until_attached, [this, loss = losses_] {
    if (loss == losses_) attach();
  });
}

void AgentLine::attach() {
  attached_ = true;
  TrainerReady ready = ready_;
  ready.holds = work_.holds();
  owner_.trainer_attached(trainer_, ready);
  for (const FromTrainer& message : work_.say_again()) owner_.trainer_said(trainer_, message);
}

void AgentLine::say(const FromTrainer& message) {
  work_.said(message);
  if (attached_) owner_.trainer_said(trainer_, message);
}

void AgentLine::lose_agent(std::function<void()> give_up) {
  attached_ = false;
  process_.after(kOrphanLimit, [this, loss = ++losses_, give_up = std::move(give_up)] {
    if (!attached_ && loss == losses_) give_up();
  });
}

void AgentLine::find_agent(Duration delay, std::function<bool()> answers) {
  process_.after(delay, [this, answers = std::move(answers)] {
    if (answers()) attach();
  });
}

}  // namespace shoal::sim
