# How a library of this project is declared. Rooms call target_sources() on what is made here.
# Per-file flags need the target's folder: set_source_files_properties(a.cc TARGET_DIRECTORY ftar_reduce PROPERTIES ...).

# Flags and include paths that every target of ours shares.
add_library(ftar_flags INTERFACE)
target_include_directories(ftar_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                                                ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(ftar_flags INTERFACE Threads::Threads)
if(NOT FTAR_KERNELS_ONLY)
  target_link_libraries(ftar_flags INTERFACE OpenSSL::Crypto)
endif()
target_compile_definitions(ftar_flags INTERFACE FTAR_BUILDING FMT_HEADER_ONLY
                                                $<$<BOOL:${FTAR_TEST_HOOKS}>:FTAR_TEST_HOOKS=1>)
if(FTAR_HAVE_ISAL)
  target_compile_definitions(ftar_flags INTERFACE FTAR_HAVE_ISAL=1)
  target_link_libraries(ftar_flags INTERFACE ${FTAR_ISAL_LIBRARY})
endif()

# ftar_static_library(NAME [WHOLE] [LINK other...]): a static library whose sources the rooms add. WHOLE: libftar.so is
# optimised across its files (FTAR_LTO). The kernels of src/reduce are not: their bits and their speed are those of the loop as
# it was compiled and measured alone.
function(ftar_static_library name)
  cmake_parse_arguments(ARG "WHOLE" "" "LINK" ${ARGN})
  add_library(${name} STATIC)
  if(ARG_WHOLE)
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${FTAR_WHOLE_FLAGS}>")
  endif()
  target_link_libraries(${name} PUBLIC ftar_flags ${ARG_LINK})
endfunction()

# ftar_shared_library(NAME [LINK other...]): the public library. Only what cmake/ftar.map names is visible.
function(ftar_shared_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  set(map ${PROJECT_SOURCE_DIR}/cmake/ftar.map)
  add_library(${name} SHARED)
  add_library(ftar::${name} ALIAS ${name})
  set_target_properties(${name} PROPERTIES FTAR_WHOLE ON)  # programs and tests are linked without (FtarOptions.cmake)
  target_compile_options(${name} PRIVATE ${FTAR_WHOLE_FLAGS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${map})
  # nodelete: a thread that looks a name up may outlive the job that asked.
  target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,--exclude-libs,ALL -Wl,-z,defs -Wl,-z,nodelete
                                             ${FTAR_WHOLE_FLAGS})
  if(FTAR_SANITIZE)
    # A sanitizer's runtime lives in the program, so its symbols are undefined here on purpose.
    target_link_options(${name} PRIVATE -Wl,-z,undefs)
  endif()
endfunction()

# Drops listed files that are not there, with a warning, so that one unfinished room does not stop the build of the others.
function(ftar_existing_sources out)
  set(kept "")
  foreach(source ${ARGN})
    if(IS_ABSOLUTE ${source} AND EXISTS ${source})
      list(APPEND kept ${source})
    elseif(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      list(APPEND kept ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    else()
      if(FTAR_WERROR)
        message(FATAL_ERROR "${source} is listed but missing")
      endif()
      message(WARNING "${source} is listed but missing")
    endif()
  endforeach()
  set(${out} ${kept} PARENT_SCOPE)
endfunction()

# CMake refuses a library without sources; a room that has none yet contributes an empty one.
function(ftar_ensure_sources target)
  get_target_property(sources ${target} SOURCES)
  if(NOT sources)
    set(sources "")
  endif()
  ftar_existing_sources(sources ${sources})
  if(NOT sources)
    file(WRITE ${PROJECT_BINARY_DIR}/generated/empty.cc "")
    set(sources ${PROJECT_BINARY_DIR}/generated/empty.cc)
  endif()
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
endfunction()

# ftar_flatbuffers(TARGET ROOM FILE...): compiles schemas of src/ROOM into generated/ROOM/FILE_generated.h of the build tree.
function(ftar_flatbuffers target room)
  set(folder ${PROJECT_BINARY_DIR}/generated/${room})
  file(MAKE_DIRECTORY ${folder})
  set(headers "")
  foreach(schema ${ARGN})
    get_filename_component(name ${schema} NAME_WE)
    set(header ${folder}/${name}_generated.h)
    add_custom_command(
      OUTPUT ${header}
      COMMAND ${FTAR_FLATC} --cpp --scoped-enums -o ${folder} ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
      COMMENT "flatc ${room}/${schema}"
      VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  add_custom_target(${target}_${room}_schemas DEPENDS ${headers})
  add_dependencies(${target} ${target}_${room}_schemas)
endfunction()
