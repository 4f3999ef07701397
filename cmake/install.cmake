# What `cmake --install` puts where. The programs find the standard metrics from their own
# place, and the package file finds the programs from its own, so a prefix can be moved.
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/MdlConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS mdlc mdl-inject RUNTIME DESTINATION bin)
install(DIRECTORY stdlib-metrics editors DESTINATION share/mdl
  PATTERN node_modules EXCLUDE PATTERN package-lock.json EXCLUDE PATTERN *.vsix EXCLUDE)
install(FILES LICENSE DESTINATION share/doc/mdl)
# The manual page of mdl-inject gets the names of the output formats.
set(formats ${CMAKE_SOURCE_DIR}/runtime/output/formats.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${formats})
file(STRINGS ${formats} names REGEX "^MDL_OUTPUT_FORMAT")
list(TRANSFORM names REPLACE "MDL_OUTPUT_FORMAT\\((.*)\\)" "\\1")
list(JOIN names "|" MDL_OUTPUT_FORMATS)
foreach(program mdlc mdl-inject)
  set(page ${CMAKE_BINARY_DIR}/share/man/man1/${program}.1)
  configure_file(docs/man/${program}.1 ${page} @ONLY)
  install(FILES ${page} DESTINATION share/man/man1)
  install(FILES scripts/completion/${program}.bash DESTINATION share/bash-completion/completions RENAME ${program})
endforeach()
install(FILES scripts/completion/_mdl-inject DESTINATION share/zsh/site-functions)
install(FILES scripts/completion/mdl-inject.fish DESTINATION share/fish/vendor_completions.d)
install(FILES cmake/MdlConfig.cmake ${CMAKE_BINARY_DIR}/MdlConfigVersion.cmake DESTINATION lib/cmake/Mdl)
