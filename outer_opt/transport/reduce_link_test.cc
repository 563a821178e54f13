// What a reduce stream says of itself in text, and the threads that work for it.
#include "outer_opt/transport/reduce_link.h"

#include <atomic>
#include <future>

#include <gtest/gtest.h>

#include "outer_opt/transport/workers.h"

namespace shoal::outer_opt {
namespace {

TEST(ReduceLink, APurposeNamesTheAttempt) {
  for (const char* token : {"", "7fff12.abcdef"}) {
    const StreamName name{ReplicaId(3), {{JobId(2), 1, 40}, 5}, token};
    EXPECT_EQ(parse_purpose(to_purpose(name)), name);
  }
  EXPECT_EQ(to_purpose({ReplicaId(3), {{JobId(2), 1, 40}, 5}, ""}), "reduce 3 2 1 40 5");
}

TEST(ReduceLink, ACancelSaysWhoIsToBlame) {
  const StreamEnd end = parse_cancel(to_cancel({false, ReplicaId(17), "17 went away"}));
  EXPECT_EQ(end.lost, ReplicaId(17));
  EXPECT_EQ(end.detail, "17 went away");
  const StreamEnd nobody = parse_cancel(to_cancel({false, {}, "the attempt is over here"}));
  EXPECT_FALSE(nobody.lost);
  EXPECT_EQ(nobody.detail, "the attempt is over here");
}

// The connection broke, or a sentence of somebody else's begins with a number.
TEST(ReduceLink, AnyOtherEndBlamesNobody) {
  for (const Error& error :
       {Error{Code::kUnavailable, "17 is gone", "", ""},
        Error{Code::kCancelled, "this node ends", "", ""}, Error{Code::kCancelled, "17", "", ""}}) {
    const StreamEnd end = parse_cancel(error);
    EXPECT_FALSE(end.lost);
    EXPECT_EQ(end.detail, error.message);
  }
}

TEST(Workers, DoWhatIsPostedUntilTheyStop) {
  Workers workers(2);
  EXPECT_EQ(workers.threads(), 2);
  std::promise<void> first, second;
  auto other = second.get_future().share();
  workers.post([&] {
    other.wait();  // both at once
    first.set_value();
  });
  workers.post([&] { second.set_value(); });
  EXPECT_EQ(first.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  workers.stop();
  std::atomic<bool> done = false;
  workers.post([&] { done = true; });
  workers.stop();
  EXPECT_FALSE(done);
}

}  // namespace
}  // namespace shoal::outer_opt
