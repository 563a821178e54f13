#include "identity/scopes.h"

#include <sstream>

#include <gtest/gtest.h>

namespace shoal::identity {
namespace {

// The whole table once more, as people read it.
constexpr char kTable[] = R"(
  action              admin operator submitter viewer metrics
  view_cluster        any   any      any       any    none
  view_job            any   any      any       any    none
  read_logs           any   any      own       any    none
  read_agent_logs     any   any      none      none   none
  read_metrics        any   any      none      any    any
  submit_job          any   any      any       none   none
  control_job         any   any      own       none   none
  download_checkpoint any   own      own       none   none
  control_agent       any   any      none      none   none
  revoke_agent        any   any      none      none   none
  create_join_token   any   any      none      none   none
  read_audit          any   any      none      none   none
  view_space          any   any      none      none   none
  manage_tokens       any   none     none      none   none
  rotate_ca           any   none     none      none   none
  manage_data         any   any      own       none   none
  download_data       any   own      own       none   none
  raise_priority      any   any      none      none   none
)";

TEST(Scopes, TheTableIsThis) {
  std::istringstream table(kTable);
  std::string word;
  table >> word;
  for (const auto& [scope, name] : kEnumerators<Scope>) {
    table >> word;
    EXPECT_EQ(word, name);
  }
  for (const auto& [action, name] : kEnumerators<Action>) {
    table >> word;
    ASSERT_EQ(word, name);
    for (const auto& [scope, scope_name] : kEnumerators<Scope>) {
      table >> word;
      EXPECT_EQ(word, to_string(granted({scope}, action))) << name << " by " << scope_name;
      EXPECT_EQ(allowed({scope}, action, true), word != "none") << name << " by " << scope_name;
      EXPECT_EQ(allowed({scope}, action, false), word == "any") << name << " by " << scope_name;
    }
  }
  EXPECT_FALSE(table >> word) << word;
}

TEST(Scopes, SeveralGrantWhatOneOfThemGrants) {
  for (const auto& [action, name] : kEnumerators<Action>) {
    EXPECT_EQ(granted({}, action), Grant::kNone) << name;
    for (const auto& [a, a_name] : kEnumerators<Scope>) {
      for (const auto& [b, b_name] : kEnumerators<Scope>) {
        EXPECT_EQ(granted({a, b}, action), std::max(granted({a}, action), granted({b}, action)));
      }
    }
  }
}

TEST(Scopes, HaveOneTextPerSet) {
  for (std::uint32_t bits = 1; bits < 1u << enumerator_count<Scope>(); ++bits) {
    ScopeSet scopes;
    scopes.n = bits;
    EXPECT_EQ(*parse_scopes(to_string(scopes)), scopes);
  }
  EXPECT_EQ(to_string(*parse_scopes("metrics,operator")), "operator,metrics");
  for (const char* text : {"", ",", "admin,", "admin,admin", "Admin", "root", "admin viewer"}) {
    const auto refused = parse_scopes(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().field, "scopes");
  }
}

}  // namespace
}  // namespace shoal::identity
