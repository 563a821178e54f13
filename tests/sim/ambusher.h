// Lies in wait for the moments of SimOptions::ambushes and strikes soon after them. The trains of
// the injector come at any time, so what begins and ends within a few messages they hardly ever
// hit.
#pragma once

#include "tests/sim/injector.h"

namespace shoal::sim {

class Ambusher final : public Observer {
 public:
  Ambusher(Sim& sim, FaultInjector& injector);
  ~Ambusher() override;
  Ambusher(const Ambusher&) = delete;

  void durable(const Record& record, const Tables& before) override;
  void contributed(const Contributed& c) override;
  void reported(const Reported& r) override { at(Moment::kReported, r.replica); }
  void averaged(const Averaged& a) override { at(Moment::kAveraged, a.replica); }
  void eagerly_begun(const EagerlyBegun& e) override { at(Moment::kEagerlyBegun, e.replica); }
  void state_held(const StateHeld& s) override { at(Moment::kHolds, s.replica); }

 private:
  void at(Moment moment, ReplicaId replica);
  void strike_later(const Ambush& ambush, ReplicaId replica);

  Sim& sim_;
  FaultInjector& injector_;
  Prng prng_;
  int left_;  // so many strikes, lest no round of a run ever ends
};

}  // namespace shoal::sim
