// Tokens, sessions, tickets and the audit trail over a real store: who is let in, with which
// sentence others are not, and what survives a start.
#include "coordinator/service/people/people.h"

#include <filesystem>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/store/store_test_util.h"
#include "identity/private_file.h"

namespace shoal::coordinator {
namespace {

using identity::Scope;
using ::testing::HasSubstr;

constexpr Instant kNoon = from_unix_ms(1'800'000'000'000);

class PeopleTest : public ::testing::Test {
 protected:
  PeopleTest() { EXPECT_TRUE(open().ok()); }

  Status open() {
    people_.reset();
    store_.reset();
    store_ = std::move(Store::open(folder_.path())).value();
    auto opened =
        People::open({.folder = folder_.path(), .clock = [this] { return now_; }}, *store_);
    if (!opened) return opened.error();
    people_ = std::move(opened).value();
    return {};
  }
  People::NewToken make(const std::string& name, Scope scope, Duration life = seconds(3600)) {
    return std::move(people_->create_token(name, {scope}, life)).value();
  }
  Result<Principal> show(const std::string& token) { return people_->who("Bearer " + token, ""); }
  Result<Principal> come_back(const NewSession& session) {
    return people_->who("", "theme=dark; shoal_session=" + session.cookie + "; x=y");
  }
  std::string why_not(const Result<Principal>& refused) {
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kUnauthenticated);
    EXPECT_FALSE(refused.error().remedy.empty());
    return refused.error().message;
  }
  std::string admin_token() { return *identity::read_token_file(people_->admin_token_file()); }

  TemporaryFolder folder_;
  Instant now_ = kNoon;
  std::unique_ptr<Store> store_;
  std::unique_ptr<People> people_;
};

TEST_F(PeopleTest, TheFirstStartWritesAnAdminsToken) {
  const auto admin = show(admin_token());
  ASSERT_TRUE(admin.ok()) << to_string(admin.error());
  EXPECT_EQ(admin->name, "admin");
  EXPECT_TRUE(admin->scopes.has(Scope::kAdmin));
  const std::string before = admin_token();
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(admin_token(), before) << "the next start keeps it";
  EXPECT_EQ(people_->tokens().size(), 1u);
}

TEST_F(PeopleTest, AnAdminsTokenThatIsLostRevokedOrOldIsMadeAnew) {
  const std::string first = admin_token();
  std::filesystem::remove(people_->admin_token_file());
  ASSERT_TRUE(people_->keep_up().ok());
  const std::string second = admin_token();
  EXPECT_NE(second, first);
  ASSERT_TRUE(people_->revoke_token(show(second)->token).ok());
  ASSERT_TRUE(people_->keep_up().ok());
  const std::string third = admin_token();
  EXPECT_TRUE(show(third).ok());
  now_ = now_ + seconds(300 * 86'400);
  ASSERT_TRUE(people_->keep_up().ok());
  EXPECT_NE(admin_token(), third);
  EXPECT_TRUE(show(third).ok()) << "the one before works to its end";
}

TEST_F(PeopleTest, AnAdminsTokenThatOthersCanReadIsRefused) {
  std::filesystem::permissions(people_->admin_token_file(), std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  const Status refused = open();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().field, HasSubstr("admin.token"));
  EXPECT_THAT(refused.error().remedy, HasSubstr("chmod 600"));
}

TEST_F(PeopleTest, ATokenSaysWhoShowsIt) {
  const auto token = make("ada", Scope::kSubmitter);
  const auto ada = show(token.text);
  ASSERT_TRUE(ada.ok());
  EXPECT_EQ(ada->name, "ada");
  EXPECT_EQ(ada->scopes, identity::ScopeSet{Scope::kSubmitter});
  EXPECT_EQ(ada->expires, kNoon + seconds(3600));
  EXPECT_TRUE(people_->who("bEARER  " + token.text, "").ok());
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(show(token.text).ok());
}

TEST_F(PeopleTest, EveryRefusalHasItsSentence) {
  const auto token = make("ada", Scope::kViewer);
  EXPECT_THAT(why_not(people_->who("", "")), HasSubstr("the request has no token"));
  EXPECT_THAT(why_not(people_->who("", "other=1")), HasSubstr("the request has no token"));
  EXPECT_THAT(why_not(people_->who("Basic YTpi", "")), HasSubstr("\"Bearer\""));
  EXPECT_THAT(why_not(show("nonsense")), HasSubstr("is not an API token"));
  std::string wrong = token.text;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_THAT(why_not(show(wrong)), HasSubstr("does not know this token"));
  now_ = kNoon + seconds(3600) + seconds(60);
  EXPECT_THAT(why_not(show(token.text)), HasSubstr("expired 1 min ago"));
  now_ = kNoon;
  ASSERT_TRUE(people_->revoke_token(token.record.id).ok());
  EXPECT_THAT(why_not(show(token.text)), HasSubstr("was revoked"));
  ASSERT_TRUE(open().ok());
  EXPECT_THAT(why_not(show(token.text)), HasSubstr("was revoked"));
  EXPECT_EQ(people_->revoke_token(token.record.id).error().code, Code::kNotFound);
}

TEST_F(PeopleTest, ABrowserLogsInAndOut) {
  const auto session = people_->log_in(make("ada", Scope::kOperator).text);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(come_back(*session)->name, "ada");
  EXPECT_TRUE(people_->is_still(*come_back(*session)));
  ASSERT_TRUE(open().ok());
  const auto again = come_back(*session);
  ASSERT_TRUE(again.ok()) << "a restart logs nobody out";
  ASSERT_TRUE(people_->log_out("shoal_session=" + session->cookie).ok());
  EXPECT_THAT(why_not(come_back(*session)), HasSubstr("login has ended"));
  EXPECT_FALSE(people_->is_still(*again));
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(come_back(*session).ok());
  EXPECT_FALSE(people_->log_out("shoal_session=" + session->cookie).ok());
  EXPECT_FALSE(people_->log_in("nonsense").ok());
}

TEST_F(PeopleTest, ASessionEndsInTimeAndWithItsToken) {
  const auto brief = make("ada", Scope::kOperator, seconds(60));
  const auto ends_first = people_->log_in(brief.text);
  EXPECT_EQ(ends_first->principal.expires, kNoon + seconds(60));
  const auto token = make("bob", Scope::kOperator, seconds(30 * 86'400));
  const auto revoked = people_->log_in(token.text), expired = people_->log_in(admin_token());
  EXPECT_EQ(expired->principal.expires, kNoon + kSessionLife);
  ASSERT_TRUE(people_->revoke_token(token.record.id).ok());
  EXPECT_THAT(why_not(come_back(*revoked)), HasSubstr("was revoked"));
  EXPECT_FALSE(people_->is_still(revoked->principal));
  EXPECT_TRUE(people_->is_still(expired->principal));
  now_ = kNoon + kSessionLife;
  EXPECT_THAT(why_not(come_back(*expired)), HasSubstr("has expired"));
  EXPECT_FALSE(people_->is_still(expired->principal));
}

TEST_F(PeopleTest, SessionsAreBounded) {
  const std::string token = admin_token();
  const auto first = people_->log_in(token);
  ASSERT_TRUE(people_->log_out("shoal_session=" + first->cookie).ok());
  const auto second = people_->log_in(token);
  EXPECT_NE(second->cookie, first->cookie);
  EXPECT_EQ(store_->load_people()->sessions.size(), 1u) << "the row is used again";
}

TEST_F(PeopleTest, ATicketLogsABrowserInOnceAndSoon) {
  const auto ada = show(make("ada", Scope::kSubmitter, seconds(30 * 86'400)).text);
  const auto ticket = people_->make_ticket(*ada);
  EXPECT_EQ(ticket.expires, kNoon + kTicketLife);
  const auto session = people_->log_in_with_ticket(ticket.text);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(come_back(*session)->name, "ada");
  const auto twice = people_->log_in_with_ticket(ticket.text);
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code, Code::kUnauthenticated);
  EXPECT_THAT(twice.error().remedy, HasSubstr("shoal link"));
  const auto late = people_->make_ticket(*ada);
  now_ = kNoon + kTicketLife;
  EXPECT_FALSE(people_->log_in_with_ticket(late.text).ok());
  now_ = kNoon;
  const auto useless = people_->make_ticket(*ada);
  ASSERT_TRUE(people_->revoke_token(ada->token).ok());
  EXPECT_FALSE(people_->log_in_with_ticket(useless.text).ok());
  EXPECT_FALSE(people_->log_in_with_ticket("").ok());
}

TEST_F(PeopleTest, OfTooManyTicketsTheOldestGoes) {
  const auto admin = show(admin_token());
  const auto first = people_->make_ticket(*admin);
  for (std::size_t i = 0; i < kTicketsMost; ++i) people_->make_ticket(*admin);
  EXPECT_FALSE(people_->log_in_with_ticket(first.text).ok());
}

TEST_F(PeopleTest, WhatATokenMayNotBeIsNamed) {
  EXPECT_EQ(people_->create_token("a b", {Scope::kViewer}, seconds(60)).error().field, "owner");
  EXPECT_EQ(people_->create_token("ada", {}, seconds(60)).error().field, "scopes");
  EXPECT_EQ(people_->create_token("ada", {Scope::kViewer}, {}).error().field, "ttl");
}

TEST_F(PeopleTest, DecisionsOfTheCoordinatorHaveRows) {
  NoteDecision decision{.agent = AgentId(3), .device = 1, .uuid = "GPU-b", .why = "XID 79"};
  const AuditRecord cordoned = audit_of(decision);
  EXPECT_EQ(cordoned.principal, "(coordinator)");
  EXPECT_EQ(cordoned.action, "cordon_device");
  EXPECT_EQ(cordoned.object, "agt_3/GPU-b");
  EXPECT_EQ(cordoned.before, "in service");
  EXPECT_EQ(cordoned.after, "cordoned: XID 79");
  decision.kind = NoteDecision::Kind::kUncordonDevice;
  decision.uuid.clear();
  const AuditRecord ended = audit_of(decision);
  EXPECT_EQ(ended.action, "uncordon_device");
  EXPECT_EQ(ended.object, "agt_3/device 1");
  EXPECT_EQ(ended.before, "cordoned");
  EXPECT_EQ(ended.after, "in service: XID 79");
}

TEST_F(PeopleTest, TheAuditTrailIsNumberedOverStarts) {
  const auto note = [&](const std::string& action) {
    std::promise<Status> written;
    people_->note({.principal = "ada", .token = "tok_2", .action = action, .object = "job_1"},
                  [&](Status s) { written.set_value(std::move(s)); });
    return written.get_future().get();
  };
  ASSERT_TRUE(note("cancel_job").ok());
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(note("pause_job").ok());
  const auto trail = store_->reader()->audit({.newest_first = true});
  ASSERT_EQ(trail->items.size(), 2u);
  EXPECT_EQ(trail->items[0].action, "pause_job");
  EXPECT_EQ(trail->items[0].seq, 2);
  EXPECT_EQ(trail->items[1].principal, "ada");
  EXPECT_EQ(trail->items[1].at, kNoon);
  EXPECT_EQ(store_->reader()->audit({.limit = 1})->next, 1);
}

}  // namespace
}  // namespace shoal::coordinator
