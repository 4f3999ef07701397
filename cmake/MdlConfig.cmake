# find_package(Mdl): the programs Mdl::mdlc and Mdl::mdl-inject of the installation that this
# file is a part of, and
#
#   mdl_add_plan(NAME SOURCES a.mdl b.mdl... [TARGET x86_64] [OUTPUT FILE] [FLAGS ...])
#
# the target NAME, part of `all`, which compiles the sources to one plan: OUTPUT, in the build
# folder unless it is absolute, by default NAME.plan. The property MDL_PLAN of the target is the
# plan's path. A source is one of the project or, when there is none of that name, a standard
# metric: SOURCES code.mdl mine.mdl. FLAGS are options of mdlc. When a source changes, the plan
# is made anew; so it is when a file changes that only mdlc knows of, such as a standard metric.
cmake_policy(PUSH)
cmake_policy(VERSION 3.20)

get_filename_component(_mdl_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(_mdl_program mdlc mdl-inject)
  if(NOT EXISTS "${_mdl_prefix}/bin/${_mdl_program}")
    set(Mdl_FOUND FALSE)
    set(Mdl_NOT_FOUND_MESSAGE "${_mdl_prefix}/bin/${_mdl_program} is missing")
  elseif(NOT TARGET Mdl::${_mdl_program})
    add_executable(Mdl::${_mdl_program} IMPORTED)
    set_target_properties(Mdl::${_mdl_program} PROPERTIES IMPORTED_LOCATION "${_mdl_prefix}/bin/${_mdl_program}")
  endif()
endforeach()
unset(_mdl_program)
unset(_mdl_prefix)

function(mdl_add_plan name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TARGET;OUTPUT" "SOURCES;FLAGS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mdl_add_plan(${name}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  elseif(NOT ARG_SOURCES)
    message(FATAL_ERROR "mdl_add_plan(${name}): SOURCES is missing")
  endif()
  set(files)
  set(own)
  foreach(source ${ARG_SOURCES})
    get_filename_component(path "${source}" ABSOLUTE)
    if(EXISTS "${path}" OR IS_ABSOLUTE "${source}")
      list(APPEND own "${path}")
      list(APPEND files "${path}")
    else()
      list(APPEND files "${source}")
    endif()
  endforeach()
  if(NOT ARG_OUTPUT)
    set(ARG_OUTPUT ${name}.plan)
  endif()
  get_filename_component(plan "${ARG_OUTPUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  get_filename_component(folder "${plan}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  if(ARG_TARGET)
    list(APPEND ARG_FLAGS --target=${ARG_TARGET})
  endif()
  add_custom_command(
    OUTPUT "${plan}"
    COMMAND Mdl::mdlc ${ARG_FLAGS} -o "${plan}" -MD "${plan}.d" -- ${files}
    DEPENDS ${own} Mdl::mdlc
    DEPFILE "${plan}.d"
    COMMENT "Plan ${name}"
    VERBATIM)
  add_custom_target(${name} ALL DEPENDS "${plan}")
  set_property(TARGET ${name} PROPERTY MDL_PLAN "${plan}")
endfunction()

cmake_policy(POP)
