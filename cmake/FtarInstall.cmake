# Installation: headers, libftar.so, tools, documents, find_package(ftar) with target ftar::ftar, and ftar.pc.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/ftar DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS ftar EXPORT ftarTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ftar_cuda)
  install(TARGETS ftar_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT ftarTargets NAMESPACE ftar:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ftar)
configure_package_config_file(cmake/ftarConfig.cmake.in ${PROJECT_BINARY_DIR}/ftarConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ftar)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ftarConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ftarConfig.cmake ${PROJECT_BINARY_DIR}/ftarConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ftar)
configure_file(cmake/ftar.pc.in ${PROJECT_BINARY_DIR}/ftar.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ftar.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE CHANGELOG.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Where README.md's links look for them.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.cc" PATTERN "*.h" PATTERN "*.py")

foreach(tool ftar-perf ftar-kernels ftar-coordinator ftar-sim)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
