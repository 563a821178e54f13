#include "coordinator/service/visit_queue.h"

#include <gmock/gmock.h>

namespace shoal::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr VisitQueue::Clock::time_point kStart{};

TEST(VisitQueue, TakesWhatIsDueInOrder) {
  VisitQueue queue;
  queue.add(ConnectionId(1), kStart + seconds(3));
  queue.add(ConnectionId(2), kStart + seconds(1));
  queue.add(ConnectionId(3), kStart + seconds(5));
  EXPECT_THAT(queue.take(kStart), IsEmpty());
  EXPECT_THAT(queue.take(kStart + seconds(3)), ElementsAre(ConnectionId(2), ConnectionId(1)));
  EXPECT_THAT(queue.take(kStart + seconds(4)), IsEmpty());
  EXPECT_EQ(queue.size(), 1u);
}

TEST(VisitQueue, VisitsASessionAsOftenAsItWasAdded) {
  VisitQueue queue;
  queue.add(ConnectionId(1), kStart);
  queue.add(ConnectionId(1), kStart);
  EXPECT_THAT(queue.take(kStart), ElementsAre(ConnectionId(1), ConnectionId(1)));
  EXPECT_THAT(queue.take(kStart), IsEmpty());
}

}  // namespace
}  // namespace shoal::coordinator
