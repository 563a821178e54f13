# Compiles small sources with the compiler of the build: the complete one must pass, every other one must fail with the
# sentence of its static_assert. Run by ctest with -DCOMPILER= -DROOT= -DSCRATCH=.

function(try_source name source)
  set(file ${SCRATCH}/${name}.cc)
  file(WRITE ${file} "${source}")
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I ${ROOT} ${file}
                  RESULT_VARIABLE failed ERROR_VARIABLE said)
  set(failed "${failed}" PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

function(accepted name source)
  try_source(${name} "${source}")
  if(failed)
    message(SEND_ERROR "${name} must compile, but:\n${said}")
  endif()
endfunction()

function(refused name source sentence)
  try_source(${name} "${source}")
  string(FIND "${said}" "${sentence}" at)
  if(NOT failed)
    message(SEND_ERROR "${name} must not compile")
  elseif(at EQUAL -1)
    message(SEND_ERROR "${name} must be refused with '${sentence}', but:\n${said}")
  endif()
endfunction()

set(struct "
#include \"base/fields.h\"
#include <string>
using namespace shoal;
struct Place { std::string city; double height = 0; int rooms = 0; };
constexpr auto fields_of(Of<Place>) {
  using T = Place;
  return fields(LIST);
}
")
function(list_of result)
  string(JOIN ", " list ${ARGN})
  string(REPLACE "LIST" "${list}" source "${struct}")
  set(${result} "${source}" PARENT_SCOPE)
endfunction()
set(city "field<&T::city>()")
set(height "field<&T::height>()")
set(rooms "field<&T::rooms>()")

list_of(complete ${city} ${height} ${rooms})
accepted(complete "${complete}")
list_of(unlisted ${city} ${height})
refused(unlisted "${unlisted}" "a field of the struct is not in its list")
list_of(twice ${city} ${height} ${height})
refused(twice "${twice}" "a field is listed twice")

set(class "
#include \"base/fields.h\"
using namespace shoal;
class Lamp {
 public:
  explicit Lamp(int watts) : watts_(watts) {}

 private:
  friend FieldAccess;
  friend constexpr auto fields_of(Of<Lamp>) { return fields<LIST>(); }
  int watts_;
  bool is_on_ = false;
};
")
function(class_of result list)
  string(REPLACE "LIST" "${list}" source "${class}")
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

class_of(private "&Lamp::watts_, &Lamp::is_on_")
accepted(private "${private}")
class_of(private_unlisted "&Lamp::watts_")
refused(private_unlisted "${private_unlisted}" "decomposes into 2 elements")

set(enum "
#include \"base/enumerators.h\"
using namespace shoal;
enum class Pace { kSlow, kFast };
constexpr auto enumerators_of(Of<Pace>) {
  using enum Pace;
  return enumerators<Pace>({WORDS});
}
static_assert(enumerator_count<Pace>() > 0);
")
function(enumerators_of result words)
  string(REPLACE "WORDS" "${words}" source "${enum}")
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

enumerators_of(all "{kSlow, \"slow\"}, {kFast, \"fast\"}")
accepted(all_words "${all}")
enumerators_of(missing "{kSlow, \"slow\"}")
refused(missing_name "${missing}" "an enumerator has no name")
enumerators_of(turned "{kFast, \"fast\"}, {kSlow, \"slow\"}")
refused(turned_words "${turned}" "names are not in the enumerators' order")
enumerators_of(same "{kSlow, \"slow\"}, {kFast, \"slow\"}")
refused(same_words "${same}" "two enumerators have the same name")
