# How a test is declared: ftar_add_test(NAME LABELS unit... SOURCES a.cc... [LINK ftar_core...] [TIMEOUT 60] [SERIAL]
#                                      [WHOLE] [ARGS ...] [ENV A=b...])
#
# A GoogleTest program. Each of its cases is a ctest of its own, found when ctest starts, so a crash or a hang costs one case;
# WHOLE runs the program as one ctest. SERIAL keeps other tests off the machine meanwhile (timing, many processes).
# Labels: unit script sim conform fuzz process process-asan process-tsan consumer tidy soak gpu rdma.
include(GoogleTest)

function(ftar_add_test name)
  cmake_parse_arguments(ARG "SERIAL;WHOLE" "TIMEOUT" "LABELS;SOURCES;LINK;ARGS;ENV" ${ARGN})
  if(NOT ARG_LABELS OR NOT ARG_SOURCES OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ftar_add_test(${name}): LABELS and SOURCES are needed; not understood: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  ftar_existing_sources(sources ${ARG_SOURCES})
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ftar_flags ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  set(properties TIMEOUT ${ARG_TIMEOUT})
  if(ARG_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" ENVIRONMENT "${ARG_ENV}" ${properties})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX "${name}." EXTRA_ARGS ${ARG_ARGS}
                         PROPERTIES LABELS "${ARG_LABELS}" ENVIRONMENT "${ARG_ENV}" ${properties})
  endif()
endfunction()
