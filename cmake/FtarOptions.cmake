# Options and compiler flags. Everything a user may set is here.
option(FTAR_WERROR "Warnings are errors (the CI sets this)" OFF)
option(FTAR_TEST_HOOKS "Build fault-injection hooks and accept FTAR_TEST_* variables" OFF)
option(FTAR_TOOLS "Build ftar-perf, ftar-coordinator and ftar-sim" ON)
option(FTAR_EXAMPLES "Build the example trainer and its demo" ON)
option(FTAR_TESTS "Build the tests" ON)
option(FTAR_KERNELS_ONLY "Build only the GPU's kernels, their tests and measurements: a compiler and nvcc are enough" OFF)
option(FTAR_LTO "Compile libftar.so as one whole (GNU compilers, without sanitizers): smaller and faster, a longer link" ON)
set(FTAR_SANITIZE "" CACHE STRING "Sanitizers: empty, address (with undefined) or thread")
set_property(CACHE FTAR_SANITIZE PROPERTY STRINGS "" address thread)

foreach(feature CUDA UCX VERBS HWLOC ISAL)
  set(FTAR_${feature} AUTO CACHE STRING "Use ${feature}: AUTO, ON or OFF")
  set_property(CACHE FTAR_${feature} PROPERTY STRINGS AUTO ON OFF)
  if(NOT FTAR_${feature} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "FTAR_${feature} is '${FTAR_${feature}}'; it must be AUTO, ON or OFF")
  endif()
endforeach()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(FTAR_CCACHE ccache)
  if(FTAR_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${FTAR_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${FTAR_CCACHE})
  endif()
endif()

# Most of a file's compilation is its headers: several files together take a third of the time. Who works on one file turns it
# off, for itself and for an editor's index.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "Compile several source files of a target together")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12 CACHE STRING "How many of them")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # a build that was moved, or carried to another machine, runs there
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

# -g1 keeps names and lines for backtraces at a third of the disk and link time of -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")
# With sanitizers -Og compiles in two thirds of the time of -O1, and the tests take as long.
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g1")
set(CMAKE_C_FLAGS_DEBUG "-Og -g1")

find_package(Threads REQUIRED)
# nvcc has options of its own, so these are for the host's compilers alone.
set(ftar_host_language "$<COMPILE_LANGUAGE:C,CXX>")
add_compile_options("$<${ftar_host_language}:-Wall;-Wextra>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options("$<${ftar_host_language}:-Wno-restrict>")  # g++ 12 sees overlap in "literal" + std::string (its bug 105651)
endif()
if(FTAR_WERROR)
  add_compile_options("$<${ftar_host_language}:-Werror>")
endif()

# Sanitizers apply to everything, tests included: a mix of checked and unchecked code reports nonsense.
if(FTAR_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(FTAR_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT FTAR_SANITIZE STREQUAL "")
  message(FATAL_ERROR "FTAR_SANITIZE is '${FTAR_SANITIZE}'; it must be empty, address or thread")
endif()

option(FTAR_LIBFUZZER "Build the fuzz targets as libFuzzer programs too (needs clang)" OFF)
if(FTAR_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)  # the fuzzer follows the branches of everything
endif()

# A build that is looked into (a debugger, a sanitizer) or that a fuzzer follows keeps its files apart.
if(FTAR_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT FTAR_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(FTAR_WHOLE_FLAGS -flto=auto -ffat-lto-objects)
  # Programs link the same archives file by file: whole programs would take the tests' build as long as all the rest of it.
  add_link_options($<$<NOT:$<BOOL:$<TARGET_PROPERTY:FTAR_WHOLE>>>:-fno-lto>)
endif()
