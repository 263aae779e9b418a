# How a test is declared: ftar_add_test(NAME LABELS unit... SOURCES a.cc... [LINK ftar_core...] [TIMEOUT 60] [SERIAL]
#                                      [WHOLE] [ARGS ...] [ENV A=b...] [SANITIZED pattern...] [ASAN pattern...])
#
# A GoogleTest program. Each of its cases is a ctest of its own, found when ctest starts, so a crash or a hang costs one case;
# WHOLE runs the program as one ctest. SERIAL keeps other tests off the machine meanwhile (timing, many processes). Cases that
# match SANITIZED also carry the labels process-asan and process-tsan, those that match ASAN process-asan.
# Labels: unit script sim conform fuzz process process-asan process-tsan consumer tidy soak gpu rdma.
#
# `cmake --build DIR --target build_LABEL` builds what the tests with that label need, and no more.
include(GoogleTest)

# The tests with these labels run this program.
function(ftar_test_program name)
  foreach(label ${ARGN})
    if(NOT TARGET build_${label})
      add_custom_target(build_${label})
    endif()
    add_dependencies(build_${label} ${name})
  endforeach()
endfunction()

# The cases of program NAME that match FILTER as ctests with these labels. The labels come by a file of their own, because
# gtest_discover_tests takes every second word after PROPERTIES for a name, also inside a list.
function(ftar_discover_tests name set filter labels)
  cmake_parse_arguments(ARG "" "" "ARGS;PROPERTIES" ${ARGN})
  set(list ${name}_${set})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX "${name}." EXTRA_ARGS ${ARG_ARGS}
                       TEST_LIST ${list} TEST_FILTER "${filter}" PROPERTIES ${ARG_PROPERTIES})
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${list}_labels.cmake)
  file(WRITE ${file} "foreach(test IN LISTS ${list})\n"
                     "  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${labels}\")\n"
                     "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()

function(ftar_add_test name)
  cmake_parse_arguments(ARG "SERIAL;WHOLE" "TIMEOUT" "LABELS;SOURCES;LINK;ARGS;ENV;SANITIZED;ASAN" ${ARGN})
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
  ftar_test_program(${name} ${ARG_LABELS})
  if(ARG_SANITIZED)
    ftar_test_program(${name} process-asan process-tsan)
  elseif(ARG_ASAN)
    ftar_test_program(${name} process-asan)
  endif()
  set(properties TIMEOUT ${ARG_TIMEOUT})
  if(ARG_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(ARG_ENV)
    list(APPEND properties ENVIRONMENT ${ARG_ENV})
  endif()
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" ${properties})
  else()
    list(JOIN ARG_SANITIZED ":" sanitized)
    list(JOIN ARG_ASAN ":" asan)
    set(rest "*")
    if(sanitized OR asan)
      string(APPEND rest "-${sanitized}:${asan}")
    endif()
    set(options ARGS ${ARG_ARGS} PROPERTIES ${properties})
    ftar_discover_tests(${name} rest "${rest}" "${ARG_LABELS}" ${options})
    if(sanitized)
      ftar_discover_tests(${name} sanitized "${sanitized}" "${ARG_LABELS};process-asan;process-tsan" ${options})
    endif()
    if(asan)
      ftar_discover_tests(${name} asan "${asan}" "${ARG_LABELS};process-asan" ${options})
    endif()
  endif()
endfunction()
