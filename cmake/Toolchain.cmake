# Compiler flags that hold for every target, ccache and the linker.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Line tables only: back traces stay readable, objects stay small.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
# The code that was tested and measured: loops over tensors have -O3 everywhere, and at -O3 g++ 12 sees copies that
# are too long or overlap in every second std::string (GCC bugs 105651, 105329).
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wnon-virtual-dtor -Woverloaded-virtual)
# g++ 12 sees uninitialized members in every moved std::variant; clang-tidy looks for the real ones.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
if(SHOAL_WERROR)
  add_compile_options(-Werror)
endif()
# Averaging and the outer step must give the same bits everywhere (docs/architecture.md, "Same bits").
add_compile_options(-ffp-contract=off)
# A shared library (python/) takes the same objects as the programs, and their precompiled headers.
# Hidden symbols keep position independent code as fast as other code: no call goes over a table.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)

if(SHOAL_SANITIZE)
  add_compile_options(-fsanitize=${SHOAL_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SHOAL_SANITIZE})
  # While g++ 12 checks pointers for null it takes no comparison of two addresses for a constant (GCC bug 71962), and
  # base/fields.h needs one. A null pointer that is used ends the process anyway.
  if(SHOAL_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute)
  endif()
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Slopiness lets ccache see through precompiled headers; base_dir shares hits between checkouts.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

find_program(LLD_PROGRAM ld.lld)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

find_package(Threads REQUIRED)
