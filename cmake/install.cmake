# What `cmake --install` puts where. The programs find the standard metrics from their own
# place, and the package file finds the programs from its own, so a prefix can be moved.
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/MdlConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS mdlc mdl-inject RUNTIME DESTINATION bin)
install(DIRECTORY stdlib-metrics editors DESTINATION share/mdl)
install(FILES LICENSE DESTINATION share/doc/mdl)
install(FILES docs/man/mdlc.1 docs/man/mdl-inject.1 DESTINATION share/man/man1)
foreach(program mdlc mdl-inject)
  install(FILES scripts/completion/${program}.bash DESTINATION share/bash-completion/completions RENAME ${program})
endforeach()
install(FILES cmake/MdlConfig.cmake ${CMAKE_BINARY_DIR}/MdlConfigVersion.cmake DESTINATION lib/cmake/Mdl)
