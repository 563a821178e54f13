#include "job/references.h"

#include <optional>
#include <set>
#include <type_traits>

#include <gmock/gmock.h>

#include "job/job_spec.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

template <typename T>
inline constexpr bool is_list = false;
template <typename T>
inline constexpr bool is_list<std::vector<T>> = true;
template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

// The pointers of all members that hold a text, of a struct with a list of its fields.
template <typename T>
void add_text_fields(const std::string& pointer, std::set<std::string>& found) {
  if constexpr (std::is_same_v<T, std::string>) {
    found.insert(pointer);
  } else if constexpr (is_list<T>) {
    add_text_fields<typename T::value_type>(pointer + "/*", found);
  } else if constexpr (is_optional<T>) {
    add_text_fields<typename T::value_type>(pointer, found);
  } else if constexpr (HasFields<T>) {
    T object{};
    for_each_field(object, [&](const FieldInfo& info, auto& member) {
      const bool is_flat = info.rule.flat_prefix != nullptr;
      add_text_fields<std::remove_cvref_t<decltype(member)>>(
          is_flat ? pointer : pointer + "/" + info.name, found);
    });
  } else {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T> || sizeof(T) <= 16,
                  "say here how texts are found in this type");
  }
}

TEST(References, EachTextFieldOfASpecificationHasARule) {
  std::set<std::string> fields;
  add_text_fields<JobSpec>("", fields);
  std::vector<std::string> ruled;
  for (const ReferenceRule& rule : reference_rules()) ruled.emplace_back(rule.pointer);
  EXPECT_THAT(ruled, UnorderedElementsAreArray(fields))
      << "a new text field needs a rule in job/references.cc; if it names a stored object, the "
         "coordinator authorizes it by that rule";
}

TEST(References, ARuleReadsItsFieldExactlyWhereAnObjectIsNamed) {
  for (const ReferenceRule& rule : reference_rules()) {
    const bool is_stored = rule.kind != Reference::kText && rule.kind != Reference::kHostPath;
    EXPECT_EQ(rule.values != nullptr, is_stored) << rule.pointer;
  }
}

TEST(References, ObjectsAreNamedWithTheirFields) {
  JobSpec spec;
  spec.name = "a";
  spec.model.init = "ckpt_3";
  spec.data.train = "host/path.txt";
  spec.data.mixture = {{"books", 1}, {"web", 2}};
  spec.train.continue_from = "ckpt_4";
  spec.trainer.code = "sha256:" + std::string(64, 'a');
  EXPECT_THAT(objects_of(spec),
              ElementsAre(NamedObject{"/model/init", Reference::kCheckpoint, "ckpt_3"},
                          NamedObject{"/data/mixture", Reference::kDataset, "books"},
                          NamedObject{"/data/mixture", Reference::kDataset, "web"},
                          NamedObject{"/train/continue_from", Reference::kCheckpoint, "ckpt_4"},
                          NamedObject{"/trainer/code", Reference::kCode, spec.trainer.code}));
}

TEST(References, AFolderOfTheHostsIsNoStoredObject) {
  JobSpec spec;
  spec.model.init = "hf:weights/tiny";
  spec.data.train = "host/path.txt";
  EXPECT_THAT(objects_of(spec), IsEmpty());
}

}  // namespace
}  // namespace shoal
