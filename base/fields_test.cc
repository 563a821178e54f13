// Going over the fields of a struct. That a list which misses one does not compile is shown by
// fields_refused_test.cmake.
#include "base/fields.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/units.h"

namespace elsewhere {

struct Place {
  std::string city;
  double height = 0;
};
constexpr auto fields_of(shoal::Of<Place>) {
  using T = Place;
  return shoal::fields(shoal::field<&T::city>(), shoal::field<&T::height>("height_m"));
}

// Members that convert from much, which a count of members must not mistake for several.
struct Journey {
  std::vector<Place> stops;
  std::optional<bool> by_night;
  std::optional<Place> home;
  shoal::Bytes luggage;
  Place end = {};
};
constexpr auto fields_of(shoal::Of<Journey>) {
  using T = Journey;
  return shoal::fields(shoal::field<&T::luggage>(shoal::not_kept("is carried")),
                       shoal::field<&T::stops>(), shoal::field<&T::by_night>(),
                       shoal::field<&T::home>(shoal::added_later()),
                       shoal::field<&T::end>(shoal::flat("end_")));
}

// Its members are private, and are counted nevertheless.
class Ticket {
 public:
  explicit Ticket(int number) : number_(number) {}

 private:
  friend shoal::FieldAccess;
  friend constexpr auto fields_of(shoal::Of<Ticket>) {
    using T = Ticket;
    return shoal::fields<&T::number_, &T::is_used, &T::_2nd_class>();
  }

  int number_;
  bool is_used = false;
  bool _2nd_class = false;
};

template <typename T>
struct Pair {
  T one_;
  T other = {};
  friend constexpr auto fields_of(shoal::Of<Pair>) {
    return shoal::fields(shoal::field<&Pair::one_>(shoal::added_later()),
                         shoal::field<&Pair::other>());
  }
};

}  // namespace elsewhere

namespace shoal {
namespace {

using elsewhere::Journey;
using elsewhere::Place;

static_assert(HasFields<Place> && !HasFields<int> && !HasFields<std::string>);

TEST(Fields, AreVisitedInTheOrderOfTheList) {
  std::vector<std::string> names;
  const Journey journey{};
  for_each_field(journey,
                 [&](const FieldInfo& field, const auto&) { names.push_back(field.name); });
  EXPECT_EQ(names, (std::vector<std::string>{"luggage", "stops", "by_night", "home", "end"}));
}

template <typename T>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const FieldInfo& field : kFields<T>.info) names.push_back(field.name);
  return names;
}

TEST(FieldNames, AreThoseOfTheMembers) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of<elsewhere::Ticket>(), (Names{"number", "is_used", "_2nd_class"}));
  EXPECT_EQ(names_of<elsewhere::Pair<Place>>(), (Names{"one", "other"}));
  EXPECT_EQ(names_of<Journey>(), (Names{"luggage", "stops", "by_night", "home", "end"}));
  EXPECT_EQ(names_of<Place>(), (Names{"city", "height_m"}));
}

// Names are constants: a list can be checked when it is compiled.
static_assert(kFields<Place>.info[0].name == std::string_view("city"));

TEST(Fields, CanBeWritten) {
  Place place;
  for_each_field(place, [](const FieldInfo&, auto& member) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(member)>, double>) {
      member = 12;
    } else {
      member = "Bern";
    }
  });
  EXPECT_EQ(place.city, "Bern");
  EXPECT_EQ(place.height, 12);
}

TEST(Fields, KnowTheirRules) {
  EXPECT_STREQ(kFields<Journey>.info[0].rule.not_kept, "is carried");
  EXPECT_EQ(kFields<Journey>.info[1].rule.flat_prefix, nullptr);
  EXPECT_TRUE(kFields<Journey>.info[3].rule.added_later);
  EXPECT_STREQ(kFields<Journey>.info[4].rule.flat_prefix, "end_");
}

TEST(Fields, CanHaveSeveralRules) {
  constexpr FieldRule kBoth = not_kept("is carried") | at_most(7) | or_none() | any_number();
  EXPECT_STREQ(kBoth.not_kept, "is carried");
  EXPECT_EQ(kBoth.at_most, 7u);
  EXPECT_TRUE(kBoth.or_none && kBoth.any_number);
  EXPECT_FALSE(kBoth.added_later);
  EXPECT_STREQ((flat("end_") | added_later()).flat_prefix, "end_");
}

}  // namespace
}  // namespace shoal
